"""The files of deploy/, and the lines of docs/scale.md for Slurm: every metric that one names is exported, every path
and option is the server's, and the public checkers that are here (promtool, hadolint, kubernetes-validate) find
nothing."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
import urllib.request

import yaml

import support

DEPLOY = support.ROOT / "deploy"
MANIFESTS = DEPLOY / "kubernetes/llada.yaml"


def resources():
    return {each["kind"]: each for each in yaml.safe_load_all(MANIFESTS.read_text(encoding="utf-8"))}


def container():
    (only,) = resources()["Deployment"]["spec"]["template"]["spec"]["containers"]
    return only


def checked(program, *words, cwd=support.ROOT):
    if shutil.which(program) is None:
        raise unittest.SkipTest(f"found no {program}")
    done = subprocess.run([program, *words], cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    return done.stdout


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        urllib.request.urlopen(support.server().url + "/v1/models").read()
        cls.text = support.get("/metrics")

    def test_every_metric_is_exported(self):
        exported = set(re.findall(r"^(llada_\w+?)(?:\{| )", self.text, re.M))
        found = 0
        for path in [*DEPLOY.rglob("*.yaml"), *DEPLOY.rglob("*.json")]:
            text = path.read_text(encoding="utf-8")
            for name in re.findall(r"llada_[a-z_]+", text):
                self.assertIn(name, exported, path)
                found += 1
        self.assertGreater(found, 30)

    def test_labels_are_those_of_the_metrics(self):
        labels = {name: set(re.findall(r"(\w+)=", inside))
                  for name, inside in re.findall(r"^(llada_\w+)\{(.*?)\}", self.text, re.M)}
        scraped = {"instance", "job", "namespace", "pod"}  # which Prometheus adds
        for expression in self.expressions():
            for name, inside in re.findall(r"(llada_[a-z_]+)\{(.*?)\}", expression):
                for label in re.findall(r"(\w+) ?[=!]", inside):
                    self.assertIn(label, labels.get(name, set()) | scraped, expression)

    @staticmethod
    def expressions():
        groups = yaml.safe_load((DEPLOY / "prometheus/alerts.yaml").read_text(encoding="utf-8"))["groups"]
        yield from (rule["expr"] for group in groups for rule in group["rules"])
        panels = json.loads((DEPLOY / "grafana/llada.json").read_text(encoding="utf-8"))["panels"]
        yield from (target["expr"] for panel in panels for target in panel["targets"])

    def test_the_dashboards_expressions_are_rules_that_promtool_takes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "rules.yaml")
            rules = [{"record": f"check:{number}", "expr": expression.replace("$__rate_interval", "1m")}
                     for number, expression in enumerate(self.expressions())]
            path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
            checked("promtool", "check", "rules", str(path))


class Manifests(unittest.TestCase):
    def test_probes_ask_for_routes_that_answer(self):
        ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
        for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
            probe = container()[kind]["httpGet"]
            self.assertEqual(ports[probe["port"]], 8080)  # the server's own where --port is not given
            with urllib.request.urlopen(support.server().url + probe["path"]) as reply:
                self.assertEqual(reply.status, 200)
        self.assertEqual(container()["readinessProbe"]["httpGet"]["path"], "/ready")
        self.assertEqual(container()["livenessProbe"]["httpGet"]["path"], "/health")
        annotations = resources()["Deployment"]["spec"]["template"]["metadata"]["annotations"]
        self.assertIn("llada_ready", support.get(annotations["prometheus.io/path"]))

    def test_options_are_the_programs(self):
        dockerfile = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
        command = json.loads(re.search(r"^CMD (\[.*\])$", dockerfile, re.M).group(1))
        for words in (container()["args"], command):
            done = subprocess.run([support.LLADA, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                                  timeout=30)
            # All that is wrong is the model, which is not here.
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("/models/model.gguf: cannot open", done.stderr)

    def test_names_agree(self):
        found = resources()
        self.assertEqual(set(found), {"Deployment", "Service", "PodDisruptionBudget", "HorizontalPodAutoscaler"})
        pod = found["Deployment"]["spec"]["template"]
        labels = pod["metadata"]["labels"]
        for selector in (found["Deployment"]["spec"]["selector"]["matchLabels"], found["Service"]["spec"]["selector"],
                         found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]):
            self.assertEqual(selector, labels)
        names = [port["name"] for port in container()["ports"]]
        self.assertIn(found["Service"]["spec"]["ports"][0]["targetPort"], names)
        target = found["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
        self.assertEqual((target["kind"], target["name"]), ("Deployment", found["Deployment"]["metadata"]["name"]))
        volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
        places = {mount["mountPath"] for mount in container()["volumeMounts"]}
        self.assertEqual({mount["name"] for mount in container()["volumeMounts"]}, volumes)
        for word in container()["args"]:
            if word.startswith("/"):
                self.assertTrue(any(word.startswith(place + "/") for place in places), word)
        # It is killed after it has drained, and it runs as the image's user.
        drain = int(container()["args"][container()["args"].index("--drain") + 1])
        self.assertGreater(pod["spec"]["terminationGracePeriodSeconds"], drain)
        user = re.search(r"^USER (\d+)$", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), re.M).group(1)
        self.assertEqual(pod["spec"]["securityContext"]["runAsUser"], int(user))
        metric = found["HorizontalPodAutoscaler"]["spec"]["metrics"][0]["pods"]["metric"]["name"]
        adapter = yaml.safe_load((DEPLOY / "prometheus/adapter.yaml").read_text(encoding="utf-8"))
        self.assertIn(metric, [rule["name"]["matches"] for rule in adapter["rules"]])

    def test_the_images_health_check(self):
        dockerfile = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
        command = json.loads(re.search(r"^HEALTHCHECK [^\[]*(\[.*\])$", dockerfile.replace("\\\n", ""), re.M).group(1))
        server = support.Server("-q")
        try:
            here = [word.replace("/8080", f"/{server.port}") for word in command]
            self.assertEqual(subprocess.run(here).returncode, 0)
            missing = [word.replace("/health", "/nothing") for word in here]
            self.assertNotEqual(subprocess.run(missing).returncode, 0)
        finally:
            server.stop()
        self.assertNotEqual(subprocess.run(here, stderr=subprocess.DEVNULL).returncode, 0)

    def test_paths_that_the_files_name_are_there(self):
        for path in DEPLOY.rglob("*"):
            if path.is_file():
                for name in re.findall(r"(?:deploy|docs|tools)/[\w./-]*\w", path.read_text(encoding="utf-8")):
                    self.assertTrue((support.ROOT / name).exists(), f"{path}: {name}")


class Checkers(unittest.TestCase):
    def test_promtool(self):
        checked("promtool", "check", "rules", "alerts.yaml", cwd=DEPLOY / "prometheus")
        checked("promtool", "test", "rules", "alerts_test.yaml", cwd=DEPLOY / "prometheus")

    def test_hadolint(self):
        checked("hadolint", "deploy/Dockerfile")

    def test_kubernetes_validate(self):
        checked("kubernetes-validate", "--strict", "deploy/kubernetes/llada.yaml")


class Slurm(unittest.TestCase):
    def test_the_documents_job_answers_every_request_once(self):
        text = (support.ROOT / "docs/scale.md").read_text(encoding="utf-8")
        job = re.search(r"((?:    .*\n)*    #SBATCH (?:.*\n)(?:    .*\n)*)", text).group(1)
        script = "\n".join(line[4:] for line in job.splitlines())
        count = int(re.search(r"--array=1-(\d+)", script).group(1))
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            ids = [f"id-{i}" for i in range(2 * count)]
            lines = [json.dumps({"custom_id": id, "method": "POST", "url": "/v1/completions",
                                 "body": {"prompt": "Ken has 20+6=", "max_tokens": 2}}) for id in ids]
            (place / "requests.jsonl").write_text("\n".join(lines) + "\n")
            os.symlink(support.model(), place / "model.gguf")
            os.symlink(support.LLADA, place / "llada")
            for task in range(1, count + 1):
                subprocess.run(["sh", "-ec", script], check=True, cwd=folder, capture_output=True,
                               env={**os.environ, "SLURM_ARRAY_TASK_ID": str(task),
                                    "PATH": folder + ":" + os.environ["PATH"]})
            found = [json.loads(line)["custom_id"] for path in place.glob("answers.*.jsonl")
                     for line in path.read_text().splitlines()]
            self.assertEqual(sorted(found), sorted(ids))


if __name__ == "__main__":
    unittest.main()
