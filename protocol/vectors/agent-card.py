"""Makes agent-card.json: A2A agent cards, their canonical text (A2A 1.0, 8.4.1; RFC 8785) and their signatures (RFC 7515, RFC 8037), from the
specifications and in another language, so that the vectors do not inherit a mistake of the code they test.

    python3 protocol/vectors/agent-card.py     (Python >= 3.11, package `cryptography`)
"""
import base64
import copy
import json
import pathlib

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

HERE = pathlib.Path(__file__).parent
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def jcs(value):
    """RFC 8785 for texts, whole numbers, true, false, null, lists and objects; the vectors hold no other numbers."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(jcs(name) + ":" + jcs(value[name]) for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(jcs, value)) + "]"
    if isinstance(value, float):
        raise ValueError(value)
    return json.dumps(value, ensure_ascii=False)


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def base58(data):
    number, text = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = BASE58[digit] + text
    return text


class Key:
    def __init__(self, n):
        self.secret = Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32)
        self.did = "did:key:z" + base58(b"\xed\x01" + self.secret.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    def jws(self, text, header=None, by=None):
        protected = b64(jcs(header or {"alg": "EdDSA", "kid": self.did, "typ": "JOSE"}).encode())
        signed = f"{protected}.{b64(text.encode())}".encode()
        return {"protected": protected, "signature": b64((by or self).secret.sign(signed))}


# What the proto marks REQUIRED, `optional`, or neither, by the message's place in the card.
REQUIRED = {
    "card": ["name", "description", "supportedInterfaces", "version", "capabilities", "defaultInputModes", "defaultOutputModes", "skills"],
    "interface": ["url", "protocolBinding", "protocolVersion"],
    "skill": ["id", "name", "description", "tags"],
    "provider": ["url", "organization"],
    "capabilities": [],
    "extension": [],
    "scheme-http": ["scheme"],
    "scheme-oauth2": ["flows"],
    "flow": ["tokenUrl", "scopes", "authorizationUrl"],
}
OPTIONAL = {
    "card": ["documentationUrl", "iconUrl"],
    "capabilities": ["streaming", "pushNotifications", "extendedAgentCard"],
    "extension": ["params"],
}
EMPTY = {"supportedInterfaces": [], "defaultInputModes": [], "defaultOutputModes": [], "skills": [], "tags": [], "capabilities": {}, "scopes": {}}


def message(kind, value, inner):
    out = {}
    for name, member in value.items():
        if member is None:
            continue
        member = inner(name, member)
        kept = name in REQUIRED[kind] or name in OPTIONAL.get(kind, []) or name.startswith("x-")
        if kept or member not in ("", False, [], {}):
            out[name] = member
    for name in REQUIRED[kind]:
        out.setdefault(name, EMPTY.get(name, ""))
    return out


def same(_name, member):
    return member


def scheme(value):
    out = {}
    for name, one in value.items():
        if name == "httpAuthSecurityScheme":
            out[name] = message("scheme-http", one, same)
        elif name == "oauth2SecurityScheme":
            flows = lambda _n, m: {flow: message("flow", body, same) for flow, body in m.items()} if isinstance(m, dict) else m
            out[name] = message("scheme-oauth2", one, flows)
        else:
            out[name] = {n: m for n, m in one.items() if m != ""}
    return out


def canonical(card):
    def inner(name, member):
        if name == "supportedInterfaces":
            return [message("interface", one, same) for one in member]
        if name == "skills":
            return [message("skill", one, same) for one in member]
        if name == "provider":
            return message("provider", member, same)
        if name == "capabilities":
            return message("capabilities", member, lambda n, m: [message("extension", e, same) for e in m] if n == "extensions" else m)
        if name == "securitySchemes":
            return {key: scheme(one) for key, one in member.items()}
        if name == "securityRequirements":
            return [
                {"schemes": {key: ({"list": one["list"]} if one.get("list") else {}) for key, one in requirement.get("schemes", {}).items()}}
                for requirement in member
            ]
        return member

    return jcs(message("card", {n: m for n, m in card.items() if n != "signatures"}, inner))


ANNA, BELA, OLD = Key(1), Key(2), Key(3)
CARD = {
    "name": "Anna",
    "description": "Bäckerei-Auskunft 🥐",
    "version": "1.2.0",
    "supportedInterfaces": [
        {"url": "https://anna.example/a2a", "protocolBinding": "JSONRPC", "tenant": "", "protocolVersion": "1.0"},
        {"url": "rookery:" + ANNA.did, "protocolBinding": "rookery:binding/pss/v1", "protocolVersion": "1.0"},
    ],
    "provider": {"url": "", "organization": "Anna & Co"},
    "documentationUrl": "",
    "capabilities": {
        "streaming": False,
        "pushNotifications": True,
        "extensions": [
            {"uri": "urn:example:a", "description": "", "required": False, "params": {"limits": {"perMinute": 30, "list": [], "off": False, "none": None}}},
            {"uri": "urn:example:b", "required": True, "params": {}},
        ],
    },
    "securitySchemes": {
        "bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer", "bearerFormat": "", "description": "a token"}},
        "cloud": {
            "oauth2SecurityScheme": {
                "flows": {"authorizationCode": {"authorizationUrl": "https://id.example/a", "tokenUrl": "https://id.example/t", "scopes": {}, "pkceRequired": False}}
            }
        },
        "peer": {"mtlsSecurityScheme": {"description": ""}},
    },
    "securityRequirements": [{"schemes": {"bearer": {"list": []}, "cloud": {"list": ["send"]}}}, {"schemes": {"peer": {}}}],
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": [],
    "skills": [{"id": "ask", "name": "Ask", "description": "", "tags": [], "examples": [], "inputModes": ["text/plain"]}],
    "iconUrl": None,
    "x-unknown": {"kept": [1, "", False]},
}


def signed(card, *keys):
    text = canonical(card)
    return {**card, "signatures": [key.jws(text) for key in keys]}


def changed(path, value):
    """The signed card with one member replaced after the signature; a value of `...` takes it out."""
    card = copy.deepcopy(signed(CARD, ANNA))
    at = card
    for step in path[:-1]:
        at = at[step]
    if value is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return card


def dumps(card):
    return json.dumps(card, ensure_ascii=False, separators=(",", ":"))


vectors = []


def good(name, card, note, text=None):
    vectors.append({"id": name, "req": "ECC-12", "note": note, "agent": ANNA.did, "text": text or dumps(card), "canonical": canonical(card)})


def bad(name, text, note, error="SIGNATURE_INVALID", agent=ANNA):
    vectors.append({"id": name, "req": "ECC-12", "note": note, "agent": agent.did, "text": text if isinstance(text, str) else dumps(text), "error": error})


GOOD = signed(CARD, ANNA)
good("full", GOOD, "defaults and an unset member stand in the text, and not in what is signed")
good("least", signed({"name": "Anna"}, ANNA), "what is required and left out counts as empty")
good("spaced", GOOD, "another order of members and spacing", json.dumps(dict(reversed(GOOD.items())), indent=2))
good("rotated", signed(CARD, OLD, ANNA), "two signatures, one of them by the agent's present key")
good("number-form", signed({**CARD, "x-n": 10}, ANNA), "another spelling of one number is the same card", dumps(signed({**CARD, "x-n": 10}, ANNA)).replace('"x-n":10', '"x-n":1.0e1'))

for name, path, value in [
    ("name", ["name"], "Anni"),
    ("description", ["description"], ""),
    ("url", ["supportedInterfaces", 0, "url"], "https://evil.example/a2a"),
    ("binding", ["supportedInterfaces", 0, "protocolBinding"], "GRPC"),
    ("interface-added", ["supportedInterfaces", 0, "tenant"], "t"),
    ("streaming", ["capabilities", "streaming"], True),
    ("streaming-unset", ["capabilities", "streaming"], ...),
    ("documentation-unset", ["documentationUrl"], ...),
    ("extension-params", ["capabilities", "extensions", 0, "params", "limits", "perMinute"], 31),
    ("extension-params-default", ["capabilities", "extensions", 0, "params", "limits", "off"], ...),
    ("extension-required", ["capabilities", "extensions", 1, "required"], False),
    ("extension-gone", ["capabilities", "extensions", 1], ...),
    ("scheme", ["securitySchemes", "bearer", "httpAuthSecurityScheme", "scheme"], "Basic"),
    ("scheme-swapped", ["securitySchemes", "bearer"], {"mtlsSecurityScheme": {}}),
    ("scheme-gone", ["securitySchemes", "peer"], ...),
    ("scopes", ["securityRequirements", 0, "schemes", "cloud", "list"], ["send", "admin"]),
    ("requirement-gone", ["securityRequirements", 1], ...),
    ("skill", ["skills", 0, "id"], "tell"),
    ("modes", ["defaultOutputModes"], ["text/plain"]),
    ("unknown-member", ["x-unknown", "kept"], [1, "", True]),
    ("member-added", ["iconUrl"], "https://evil.example/i.png"),
]:
    bad("changed-" + name, changed(path, value), "changed after it was signed")

bad("other-agent", signed(CARD, BELA), "signed well, by somebody else")
bad("asked-other", GOOD, "the card of another agent than was asked for", agent=BELA)
TEXT = canonical(CARD)
bad("key-mismatch", {**CARD, "signatures": [ANNA.jws(TEXT, by=BELA)]}, "names the agent's key, and is made with another one")
bad("unsigned", CARD, "no signatures")
bad("no-signatures", {**CARD, "signatures": []}, "an empty list of signatures")
bad("too-many", {**CARD, "signatures": [BELA.jws(TEXT)] * 8 + [ANNA.jws(TEXT)]}, "more signatures than anybody has keys")
bad("alg-none", {**CARD, "signatures": [{"protected": b64(jcs({"alg": "none", "kid": ANNA.did}).encode()), "signature": ""}]}, "alg none")
bad("alg-other", {**CARD, "signatures": [ANNA.jws(TEXT, {"alg": "ES256", "kid": ANNA.did, "typ": "JOSE"})]}, "the header names another algorithm")
bad("crit", {**CARD, "signatures": [ANNA.jws(TEXT, {"alg": "EdDSA", "kid": ANNA.did, "crit": ["exp"], "exp": 1})]}, "a header that must be understood and is not")
bad("no-kid", {**CARD, "signatures": [ANNA.jws(TEXT, {"alg": "EdDSA"})]}, "no kid")
bad("padded", {**CARD, "signatures": [{**ANNA.jws(TEXT), "signature": ANNA.jws(TEXT)["signature"] + "=="}]}, "base64url with padding")
bad("short", {**CARD, "signatures": [{**ANNA.jws(TEXT), "signature": ANNA.jws(TEXT)["signature"][:-2]}]}, "a signature that is too short")
bad("not-objects", {**CARD, "signatures": [None, "x", 7, {"protected": 1}]}, "entries that are no signatures")
bad("duplicate-name", dumps(GOOD).replace('"name":"Anna",', '"name":"Evil","name":"Anna",', 1), "a member twice: readers differ on which counts", "FIELD_INVALID")
bad("duplicate-escaped", dumps(GOOD).replace('"name":"Anna",', '"n\\u0061me":"Evil","name":"Anna",', 1), "the same member in another spelling", "FIELD_INVALID")
bad("duplicate-inside", dumps(GOOD).replace('"perMinute":30', '"perMinute":9999,"perMinute":30', 1), "twice, further down", "FIELD_INVALID")
bad("number-unsafe", dumps(signed({**CARD, "x-n": 9007199254740992}, ANNA)).replace("9007199254740992", "9007199254740993"), "a number that readers round differently", "FIELD_INVALID")
bad("number-huge", dumps(signed({**CARD, "x-n": 1}, ANNA)).replace('"x-n":1', '"x-n":1e999'), "no double holds it", "FIELD_INVALID")
bad("surrogate", dumps(GOOD).replace("Anna & Co", "Anna \\ud800"), "half a surrogate pair", "FIELD_INVALID")
bad("type", changed(["name"], ["Anna"]), "a field of another type", "FIELD_INVALID")
bad("signatures-type", {**CARD, "signatures": {}}, "signatures that are no list", "FIELD_INVALID")
bad("not-json", dumps(GOOD)[:-1], "cut off", "FIELD_INVALID")
bad("not-object", "[]", "no object", "FIELD_INVALID")

(HERE / "agent-card.json").write_text(json.dumps({"seeds": {"agent": "01" * 32, "other": "02" * 32, "former": "03" * 32}, "vectors": vectors}, ensure_ascii=False, indent=1) + "\n")
print(len(vectors))
