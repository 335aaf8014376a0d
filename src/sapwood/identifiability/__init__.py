"""Identifiability of parsing models from moments of sentences: models, moments, unmixing and EM."""

from sapwood.identifiability.algebra.simplices import Block
from sapwood.identifiability.em import EMResult, fit_em
from sapwood.identifiability.identify import Identifiability, check_identifiability
from sapwood.identifiability.models.base import ConstituencyModel, DependencyModel, Model
from sapwood.identifiability.models.zoo import MODELS, make_model
from sapwood.identifiability.moment_maps import FunctionMoments, JacobianMoments, ModelMoments, MomentMap
from sapwood.identifiability.moments import MOMENTS, Population, Sentences, empirical_moments, exact_moments
from sapwood.identifiability.unmixing.unmix import UncertainAnswer, Unmixed, unmix

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
