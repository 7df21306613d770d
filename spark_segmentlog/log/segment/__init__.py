"""One segment: the walk over its batches, and what may be believed of its indexes.

Uses `io`, `formats` and `record`. For others: `segment` (`Segment`), `scanner` (its rows), `walk`
(`HeaderWalk`, where a log ends), `growth` (how a segment grows and when it rolls).
"""
