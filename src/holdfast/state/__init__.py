"""From watched objects to values: conversion between `api` and `model`, and the snapshot.

This is the one room that knows both the wire types and the values decisions are made from.
"""
