"""`holdfast demo`: the whole thing in one process, with a story that makes it move.

`stage` builds the world and lets the real controllers loose in it; `story` is what users do to it; `picture` is what
there is at one moment; `view` draws pictures; `telling` says what changed between two of them. Only `stage` and `story`
touch the world.
"""
