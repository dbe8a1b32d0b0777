"""The report of a study: results of simulations in, one HTML file, one JSON document and two CSV files out.

Everything here is a pure function of the results, so the same results give the same bytes.
"""
