"""Looks at a pod as a cluster would: pods.py CELLAR FILE

A name that Kubernetes does not know is told, by what the chart's documents are compared with
(deploy/helm/schemas); and the variables of each container have to be settings that CELLAR takes.
"""

import json
import pathlib
import subprocess
import sys

import jsonschema_rs
import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
# A StatefulSet's pods are pods.
SCHEMA = ROOT / "deploy" / "helm" / "schemas" / "statefulset-apps-v1.json"
PARTS = {
    "metadata": "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
    "spec": "io.k8s.api.core.v1.PodSpec",
}


def problems(pod, cellar):
    """What is wrong with a pod, line by line."""
    if (pod.get("apiVersion"), pod.get("kind")) != ("v1", "Pod"):
        yield "it is no pod"
    definitions = json.loads(SCHEMA.read_text())["definitions"]
    fields = {part: {"$ref": f"#/definitions/{name}"} for part, name in PARTS.items()}
    schema = {
        "type": "object",
        "properties": {"apiVersion": {}, "kind": {}, **fields},
        "required": list(PARTS),
        "additionalProperties": False,
        "definitions": definitions,
    }
    validator = jsonschema_rs.Draft4Validator(schema)
    yield from (error.message for error in validator.iter_errors(pod))
    for container in pod.get("spec", {}).get("containers", []):
        variables = {one["name"]: one["value"] for one in container.get("env", [])}
        command = [cellar, "--print-config"]
        told = subprocess.run(command, env=variables, capture_output=True, text=True)
        if told.returncode != 0:
            yield told.stderr.strip()
        places = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
        state = variables.get("CELLAR_STATE")
        if state is not None and not any(state.startswith(f"{place}/") for place in places):
            yield f"{state} lies in no volume"


def main():
    cellar, file = sys.argv[1:]
    found = list(problems(yaml.safe_load(pathlib.Path(file).read_text()), cellar))
    print("\n".join(found), end="")
    sys.exit(1 if found else 0)


main()
