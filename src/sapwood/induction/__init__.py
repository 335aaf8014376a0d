"""Learning without trees: parsing models, their moments, and what can be found from them at all."""

from sapwood.induction.identify import Identifiability, check_identifiability
from sapwood.induction.model import ConstituencyModel, DependencyModel, Model
from sapwood.induction.models import MODELS, make_model
from sapwood.induction.moment_maps import FunctionMoments, JacobianMoments, ModelMoments, MomentMap
from sapwood.induction.moments import MOMENTS, empirical_moments, exact_moments
from sapwood.induction.simplices import Block

__all__ = [
    "MODELS",
    "MOMENTS",
    "Block",
    "ConstituencyModel",
    "DependencyModel",
    "FunctionMoments",
    "Identifiability",
    "JacobianMoments",
    "Model",
    "ModelMoments",
    "MomentMap",
    "check_identifiability",
    "empirical_moments",
    "exact_moments",
    "make_model",
]
