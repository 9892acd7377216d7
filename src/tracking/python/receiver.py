"""Hands a run's figures to Weights & Biases or MLflow through their own packages. Lines of JSON come on stdin: the
first says where to, then points, `flush`, `finish`; the first line, each flush and the finish are answered by a line on
stdout. Their own settings hold: WANDB_MODE, WANDB_API_KEY, WANDB_BASE_URL, ...; MLFLOW_TRACKING_URI, ...
"""

import json
import os
import shutil
import sys
import tempfile

# Packages print on stdout; the answers go where they cannot.
ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def answer(**said):
    print(json.dumps(said), file=ANSWERS, flush=True)


# What W&B draws a key over; the rest over the steps of RL.
AXES = {"train/*": "train/step", "sft/*": "sft/step", "eval/*": "eval/step"}


class Wandb:
    def __init__(self, start):
        # Its temporary folders are the run's: a receiver that is ended while its server is down leaves them behind.
        tempfile.tempdir = os.path.join(start["folder"], "tmp")
        shutil.rmtree(tempfile.tempdir, ignore_errors=True)
        os.makedirs(tempfile.tempdir)
        import wandb

        self.run = wandb.init(
            project=start["project"],
            id=start["id"],
            name=start["name"],
            resume="allow",
            dir=start["folder"],
            config={"recipe": start["recipe"]},
        )
        for axis in ("train/step", "sft/step", "eval/step", "rollout/step"):
            self.run.define_metric(axis, hidden=True)
        for group, axis in AXES.items():
            self.run.define_metric(group, step_metric=axis)
        for group in ("rollout/*", "multi_turn/*", "passrate/*", "perf/*"):
            self.run.define_metric(group, step_metric="rollout/step")

    def put(self, point):
        self.run.log({**point["values"], **point["axes"]})

    def flush(self):
        return False  # its own process sends, and says only at the end that it has

    def finish(self):
        self.run.finish()


class Mlflow:
    def __init__(self, start):
        # Without a server: files of MLflow's own form in the run's folder, which its newer versions want allowed.
        server = os.environ.get("MLFLOW_TRACKING_URI")
        if not server:
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        import mlflow

        self.metrics = []
        if not server:
            mlflow.set_tracking_uri("file://" + os.path.join(start["folder"], "mlruns"))
        experiment = mlflow.set_experiment(start["project"])
        self.client = mlflow.MlflowClient()
        # The run that an earlier process of the same folder began.
        found = self.client.search_runs(
            [experiment.experiment_id], f"tags.tritonforge_id = '{start['id']}'", max_results=1
        )
        if found:
            self.id = found[0].info.run_id
            self.client.set_terminated(self.id, "RUNNING")
        else:
            tags = {"tritonforge_id": start["id"], "mlflow.runName": start["name"]}
            self.id = self.client.create_run(experiment.experiment_id, tags=tags).info.run_id
            if start["recipe"]:
                self.client.log_text(self.id, start["recipe"], "recipe.yaml")

    def put(self, point):
        from mlflow.entities import Metric

        time = int(point["time"] * 1000)
        for key, value in point["values"].items():
            self.metrics.append(Metric(key.replace("@", "_at_"), value, time, point["step"]))

    def flush(self):
        while self.metrics:
            self.client.log_batch(self.id, metrics=self.metrics[:1000])
            del self.metrics[:1000]
        return True

    def finish(self):
        self.flush()
        self.client.set_terminated(self.id, "FINISHED")


def main():
    start = json.loads(sys.stdin.readline())
    target = start["target"]
    try:
        receiver = {"wandb": Wandb, "mlflow": Mlflow}[target](start)
    except ModuleNotFoundError as error:
        package = "mlflow-skinny" if target == "mlflow" else target
        return answer(missing=f"{error.name} is not in {sys.executable}: {sys.executable} -m pip install {package}")
    answer(ready=True)
    for line in sys.stdin:
        message = json.loads(line)
        if "values" in message:
            receiver.put(message)
        elif "flush" in message:
            answer(flushed=receiver.flush())
        elif "finish" in message:
            receiver.finish()
            return answer(finished=True)
    return receiver.finish()  # whoever wrote is gone: what came is kept


try:
    main()
except Exception as error:  # one line for the log, whatever the package raised
    answer(error=f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
    sys.exit(1)
