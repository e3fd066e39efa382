"""Pictures of graphs: where everything stands (:mod:`.layout`), drawn as SVG where nothing can be run and as
a Vega specification where the front end has Vega (:class:`.picture.Picture`).

JupyterLab brings its Vega along (BSD), so a picture needs no package, no widget and no script of ours, works
offline, and leaves the notebook small. The page of ``taboot browse`` cuts its texts by the same measure
(:mod:`.layout`).
"""
