"""Answers that somebody else has derived as well: resolver, validator, checks by code."""
