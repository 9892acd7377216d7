"""Launches of @triton.autotune in a plan: each configuration that a tuner could choose is recorded, as steps of its
own. The trusted side decides which of them are run."""

import contextlib

from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources, PTXASError

from tritonforge_worker import frontend

# Each costs a compilation and a replay: so many of one kernel, and beyond the first ones so many of a forward.
MAX_CONFIGURATIONS, MAX_OTHERS = 8, 64


def name_of(config):
    options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    if config.num_ctas != 1:
        options["num_ctas"] = config.num_ctas
    if config.maxnreg is not None:
        options["maxnreg"] = config.maxnreg
    return ", ".join(f"{name} {value}" for name, value in {**config.kwargs, **options}.items())[:200]


class Tunings:
    """Takes the place of Autotuner.run while a plan is recorded. A tuner times its configurations once for each key and
    launches the best one from then on: what is recorded are those later calls, so that its own hooks (pre_hook,
    post_hook, reset_to_zero, restore_value), which are there for the timing alone, are not called. A configuration's
    pre_hook is called before each launch of it, and is."""

    def __init__(self, recording, failed):
        self.found = []  # as the plan has them
        known, read, others = {}, [], [0]

        def candidates(tuner, kwargs):
            """What is to be tried, the one that is cheapest to replay last, and how many are not."""
            configs = list(dict.fromkeys(frontend.every_config(tuner, kwargs)))
            preferred = frontend.prefer_config(configs)[0]
            most = max(0, min(MAX_CONFIGURATIONS - 1, MAX_OTHERS - others[0]))
            further = [config for config in configs if config is not preferred]
            others[0] += len(further[:most])
            return [*further[:most], preferred], len(further[most:])

        def launch(tuner, config, args, kwargs):
            given = {**kwargs, **config.all_kwargs()}
            if config.pre_hook is not None:
                config.pre_hook({**tuner.nargs, **given})
            return tuner.fn.run(*args, **given)

        def first_time(tuner, number, args, kwargs):
            """Records what a tuner would time, and returns it with what the last launch gave."""
            taken, result, passed_over = [], None, None
            if twice := sorted(kwargs.keys() & {name for config in tuner.configs for name in config.kwargs}):
                raise ValueError(f"{', '.join(twice)}: given by the launch and by the autotuner's configurations")
            configs, left_out = candidates(tuner, kwargs)
            for config in configs:
                steps, failures = len(recording.steps), len(failed)
                try:
                    with recording.configuration(number, len(taken)):
                        result = launch(tuner, config, args, kwargs)
                except (OutOfResources, CompileTimeAssertionFailure, PTXASError) as error:  # a tuner goes on as well
                    passed_over = error
                    del recording.steps[steps:], failed[failures:]
                else:
                    taken.append(config)
            if not taken:
                raise passed_over
            self.found.append({"configurations": [name_of(config) for config in taken], "left_out": left_out})
            return taken, result

        def run(tuner, *args, **kwargs):
            tuner.nargs = dict(zip(tuner.arg_names, args))
            if len(tuner.configs) < 2:
                return launch(tuner, tuner.configs[0], args, kwargs)
            given = {k: v for k, v in {**tuner.nargs, **kwargs}.items() if k in tuner.arg_names}
            key = (tuner, *(given[name] for name in tuner.keys if name in given))
            key += tuple(str(value.dtype) for value in given.values() if hasattr(value, "dtype"))
            if key not in known:
                number = len(self.found)
                configs, result = first_time(tuner, number, args, kwargs)
                known[key] = number, configs
            else:
                number, configs = known[key]
                for index, config in enumerate(configs):
                    with recording.configuration(number, index):
                        result = launch(tuner, config, args, kwargs)
            vars(tuner)["best_config"] = configs[-1]
            tuner.nargs = None
            return result

        def best_config(tuner):
            if "best_config" not in vars(tuner):
                raise AttributeError("best_config")
            read.append(tuner)  # what follows depends on it, and is recorded for the last configuration alone
            return vars(tuner)["best_config"]

        def settle():
            for (tuner, *_), (number, configs) in known.items():
                if tuner in read:
                    keep_last(number, len(configs) - 1)

        def keep_last(number, last):
            kept = [step for step in recording.steps if step.get("of", [])[:1] != [number] or step["of"][1] == last]
            recording.steps[:] = [{**s, "of": [number, 0]} if s.get("of") == [number, last] else s for s in kept]
            tuning = self.found[number]
            self.found[number] = {
                "configurations": tuning["configurations"][-1:],
                "left_out": tuning["left_out"] + last,
            }

        self._run, self._best_config, self._settle = run, best_config, settle

    @contextlib.contextmanager
    def installed(self):
        before = Autotuner.run
        Autotuner.run = self._run
        Autotuner.best_config = property(self._best_config)
        try:
            yield
            self._settle()
        finally:
            Autotuner.run = before
            del Autotuner.best_config
