"""Answers why: documents about pods, nodes, reservations and gangs, for the JSON API, the command line and the page.

Reads the caches, the state of the cluster and the reasons of the last plan. It writes nothing, and no controller uses it.
`reports` builds every document, `server` serves them.
"""
