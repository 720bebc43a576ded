"""Schemathesis asks for all that `/manage/openapi.json` describes, rightly and wrongly, as each role.

No answer may be the server's fault, and each is as the document says.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import requests

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


@pytest.mark.parametrize("who", ["nobody", "viewer", "operator", "admin"])
def test_each_answer_is_as_the_document_says(server, who, tmp_path):
    arguments = [
        "run", f"{server}/manage/openapi.json", "--header", f"Authorization: Bearer the token of {who}",
        "--checks", CHECKS, "--phases", "examples,coverage,fuzzing", "--max-examples", "30",
        "--generation-deterministic", "--continue-on-failure", "--no-color",
    ]
    if who in ("operator", "admin"):
        # It would be the last that this server answers.
        arguments += ["--exclude-operation-id", "drain"]
    program = Path(sys.executable).with_name("schemathesis")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    cases = re.search(r"(\d+) generated, (\d+) passed", done.stdout)
    assert cases and cases[1] == cases[2] and int(cases[1]) > 500, done.stdout
    assert requests.get(f"{server}/livez", timeout=10).status_code == 200


def test_the_document_wants_no_login_and_everything_else_does(server):
    document = requests.get(f"{server}/manage/openapi.json", timeout=10)
    assert (document.status_code, document.headers["Content-Type"]) == (200, "application/json")
    for path, resources in document.json()["paths"].items():
        for method in resources:
            if path == "/openapi.json":
                continue
            path = re.sub(r"{\w+}", "1", path)
            wrong = {"Authorization": "Bearer somebody else's"}
            answer = requests.request(method, f"{server}/manage{path}", headers=wrong, timeout=10)
            # What makes no sense is said before it is asked who it is.
            assert answer.status_code in (400, 401), (method, path, answer.text)
