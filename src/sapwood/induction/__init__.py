"""Learning without trees: parsing models, their moments, what can be found from them at all, unmixing and EM."""

from sapwood.induction.em import EMResult, fit_em
from sapwood.induction.identify import Identifiability, check_identifiability
from sapwood.induction.model import ConstituencyModel, DependencyModel, Model
from sapwood.induction.models import MODELS, make_model
from sapwood.induction.moment_maps import FunctionMoments, JacobianMoments, ModelMoments, MomentMap
from sapwood.induction.moments import MOMENTS, Population, Sentences, empirical_moments, exact_moments
from sapwood.induction.simplices import Block
from sapwood.induction.unmixing import UncertainAnswer, Unmixed, unmix

__all__ = [
    "MODELS",
    "MOMENTS",
    "Block",
    "ConstituencyModel",
    "DependencyModel",
    "EMResult",
    "FunctionMoments",
    "Identifiability",
    "JacobianMoments",
    "Model",
    "ModelMoments",
    "MomentMap",
    "Population",
    "Sentences",
    "UncertainAnswer",
    "Unmixed",
    "check_identifiability",
    "empirical_moments",
    "exact_moments",
    "fit_em",
    "make_model",
    "unmix",
]
