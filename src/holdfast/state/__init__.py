"""Between the API server and decisions: conversion of objects into values, and the state of the cluster.

Only this package uses both the wire types of `api` and the values of `model`.
"""
