"""E-step: expected counts over trees and packed forests."""
