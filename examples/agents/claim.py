"""An agent over the claim API, with nothing but Python's standard library.

Run it beside a node:  python3 examples/agents/claim.py URL TOKEN_FILE [COUNT]
URL is the node's HTTP address, TOKEN_FILE the agent's token (`rookery agent list --json` prints both).
It takes one task after another, says how far it is, answers with the text in capitals, and ends after COUNT tasks.
"""

import json
import sys
import threading
import urllib.error
import urllib.request

BASE = sys.argv[1].split("/agents/")[0].rstrip("/")
TOKEN = open(sys.argv[2], encoding="utf-8").read().strip()
COUNT = int(sys.argv[3]) if len(sys.argv) > 3 else None
LEASE_MS = 30_000


def call(path, body):
    """One POST; None for an answer without a body, an exception with the node's own words for a refusal."""
    request = urllib.request.Request(
        BASE + path,
        data=json.dumps(body).encode(),
        headers={"Authorization": "Bearer " + TOKEN, "Content-Type": "application/json"},
        method="POST",
    )
    try:
        with urllib.request.urlopen(request, timeout=90) as response:
            text = response.read()
            return json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        told = json.loads(error.read())["error"]
        raise RuntimeError(f"{told['code']}: {told['message']}; {told.get('remedy', '')}") from None


def renewed(todo_id, claim, done):
    """Keeps the lease while the work goes on."""
    while not done.wait(LEASE_MS / 3000):
        call(f"/v1/work/{todo_id}/renew", {"claim": claim, "leaseMs": LEASE_MS})


def work(todo):
    texts = [part["text"] for part in todo["message"]["parts"] if "text" in part]
    return " ".join(texts).upper()


served = 0
while COUNT is None or served < COUNT:
    claimed = call("/v1/work/claim", {"waitMs": 30_000, "leaseMs": LEASE_MS, "sideEffects": "none"})
    if claimed is None:
        continue
    todo, claim = claimed["todo"], claimed["claim"]
    done = threading.Event()
    threading.Thread(target=renewed, args=(todo["id"], claim, done), daemon=True).start()
    try:
        call(f"/v1/work/{todo['id']}/progress", {"claim": claim, "text": "reading"})
        answer = work(todo)
        done.set()
        call(f"/v1/work/{todo['id']}/complete", {"claim": claim, "text": answer})
        print("answered:", answer, flush=True)
    except RuntimeError as error:
        # Canceled meanwhile, or another process has it: nothing is left to do.
        print("gone:", error, flush=True)
    finally:
        done.set()
    served += 1
