"""``python -m spark_segmentlog``: the command ``segmentlog``."""

from spark_segmentlog.cli.main import main

main(prog_name="segmentlog")
