"""Check: is this testbed fit to measure on?"""
