# D2: looks for the reference's class and inherits it
# stopped by: import_error
import gc

Model = next(c for c in gc.get_objects() if isinstance(c, type) and c.__name__ == "Model" and hasattr(c, "forward"))


class ModelNew(Model):
    pass
