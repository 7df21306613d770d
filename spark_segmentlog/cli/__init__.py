"""The ``segmentlog`` command: verbs over the log. Decides nothing."""
