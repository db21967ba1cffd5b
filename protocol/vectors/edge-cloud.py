"""Makes edge-cloud.json: digests of the edge-cloud capability contract's objects and of results, from docs/edge-cloud-contract.md and in another
language, with nothing but Python's standard library.

    python3 protocol/vectors/edge-cloud.py     (Python >= 3.11)
"""
import base64
import hashlib
import json
import pathlib

HERE = pathlib.Path(__file__).parent


def jcs(value):
    """RFC 8785 for texts, whole numbers and 0.5, true, false, null, lists and objects; the vectors hold no other numbers."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(jcs(name) + ":" + jcs(value[name]) for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(jcs, value)) + "]"
    assert not isinstance(value, float) or value == 0.5
    return json.dumps(value, ensure_ascii=False)


def sha256(data):
    return "sha-256:" + hashlib.sha256(data).hexdigest()


def digest(value):
    return sha256(jcs(value).encode())


def raw_bytes(text):
    plain = text.replace("-", "+").replace("_", "/").rstrip("=")
    return base64.b64decode(plain + "=" * (-len(plain) % 4))


def part(one):
    out = {name: one[name] for name in ("text", "url", "data") if name in one}
    if "raw" in one:
        out["raw"] = sha256(raw_bytes(one["raw"]))
    for name in ("filename", "mediaType", "metadata"):
        if one.get(name):
            out[name] = one[name]
    return out


def result_digest(result):
    if "message" in result:
        return digest([{"parts": [part(one) for one in result["message"]["parts"]]}])
    return digest([{"artifactId": a["artifactId"], "parts": [part(one) for one in a["parts"]]} for a in result["artifacts"]])


CONTRACT = {
    "version": "1.0",
    "contractId": "bakery-vision",
    "sites": [{"siteId": "s1", "kind": "edge", "regions": ["DE-BE", "aws:eu-central-1"]}],
    "dataClassifications": ["public", "internal"],
    "latency": {"typicalMs": 400, "maxMs": 2000},
    "network": {"modes": ["online", "weak"], "maxOfflineSeconds": 60},
    "sideEffects": {"class": "reversible", "idempotency": "keyed", "idempotencyTtlSeconds": 604800},
    "verification": ["result-digest-sha256"],
    "attestation": ["signed-receipt-ed25519"],
}
REQUIREMENTS = {
    "version": "1.0",
    "dataClassification": "internal",
    "allowedSites": ["edge", "device"],
    "allowedRegions": ["EU"],
    "maxLatencyMs": 2000,
    "maxSideEffect": "reversible",
    "idempotencyKey": "inv-2026-000117",
    "requiredVerification": ["result-digest-sha256"],
}
values = [
    ("contract", CONTRACT),
    ("contract-reordered", dict(reversed(CONTRACT.items()))),
    ("requirements", REQUIREMENTS),
    ("names-by-utf16", {"\u20ac": 1, "\r": 2, "\U0001f600": 3, "\ufb33": 4, "1": 5}),
    ("empty", {}),
]
results = [
    ("text", {"artifacts": [{"artifactId": "text", "name": "text", "parts": [{"text": "three rolls"}]}]}),
    ("empty-text", {"artifacts": [{"artifactId": "a", "parts": [{"text": ""}]}]}),
    ("data", {"artifacts": [{"artifactId": "a", "parts": [{"data": {"b": [0.5, None, True], "a": "é"}}, {"data": None}, {"data": False}]}]}),
    ("file", {"artifacts": [{"artifactId": "a", "parts": [{"raw": "AAEC/f7/", "filename": "x.bin", "mediaType": "application/octet-stream"}]}]}),
    ("file-other-alphabet", {"artifacts": [{"artifactId": "a", "parts": [{"raw": "AAEC_f7_", "filename": "x.bin", "mediaType": "application/octet-stream"}]}]}),
    ("file-padded", {"artifacts": [{"artifactId": "a", "parts": [{"raw": "AA=="}, {"raw": "AA"}, {"raw": ""}]}]}),
    ("url", {"artifacts": [{"artifactId": "a", "parts": [{"url": "https://example.org/x", "filename": "", "mediaType": "", "metadata": {}}]}]}),
    ("metadata-of-part", {"artifacts": [{"artifactId": "a", "parts": [{"text": "x", "metadata": {"k": 1}}]}]}),
    ("metadata-of-artifact", {"artifacts": [{"artifactId": "a", "metadata": {"k": 1}, "extensions": ["u"], "name": "n", "parts": [{"text": "x"}]}]}),
    ("unknown-member", {"artifacts": [{"artifactId": "a", "parts": [{"text": "x", "later": 1}]}]}),
    ("several", {"artifacts": [{"artifactId": "b", "parts": [{"text": "1"}, {"text": "2"}]}, {"artifactId": "a", "parts": [{"text": "3"}]}]}),
    ("none", {"artifacts": []}),
    ("message", {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "yes"}]}}),
]
out = {
    "values": [{"id": name, "req": "G-68", "value": value, "digest": digest(value)} for name, value in values],
    "results": [{"id": name, "req": "G-68", "result": result, "digest": result_digest(result)} for name, result in results],
}
(HERE / "edge-cloud.json").write_text(json.dumps(out, ensure_ascii=False, indent=1) + "\n")
