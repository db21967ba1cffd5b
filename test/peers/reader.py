"""A second reader of the protocol, written from protocol/README.md alone, with Python's standard library: deterministic CBOR (§0), EIDs and the rule
of verification (§1), locators (§3) and the INIT frame (§6). It reads the vectors and says where it comes to another verdict than they do.

Usage: python3 test/peers/reader.py [folder of the vectors]
"""
import hashlib
import json
import pathlib
import re
import sys


class Refused(Exception):
    def __init__(self, *codes):
        super().__init__(codes[0])
        self.codes = codes  # any of them would do


CBOR = ("CBOR_INVALID", "CBOR_NOT_CANONICAL")
INTEGER_MAX = 2**53 - 1


class Cbor:
    """Checks lengths, order and UTF-8 as it decodes, so it needs no second encoding."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def whole(self):
        value = self.item(1)
        if self.at != len(self.data):
            raise Refused(*CBOR)
        return value

    def take(self, count):
        if count > len(self.data) - self.at:
            raise Refused(*CBOR)
        self.at += count
        return self.data[self.at - count : self.at]

    def head(self):
        first = self.take(1)[0]
        major, info = first >> 5, first & 31
        if info < 24:
            return major, info, info
        if info > 27:
            raise Refused(*CBOR)
        width = 1 << (info - 24)
        number = int.from_bytes(self.take(width), "big")
        if number < (24, 256, 65536, 2**32)[info - 24]:
            raise Refused(*CBOR)
        return major, number, info

    def item(self, level):
        major, number, info = self.head()
        if major in (0, 1):
            value = number if major == 0 else -1 - number
            if abs(value) > INTEGER_MAX:
                raise Refused(*CBOR)
            return value
        if major == 2:
            return self.take(number)
        if major == 3:
            return self.text(number)
        if major == 7 and info == number and number in (20, 21):
            return number == 21
        if major not in (4, 5) or level > 16:
            raise Refused(*CBOR)
        if major == 4:
            return [self.item(level + 1) for _ in self.counted(number)]
        out, last = {}, None
        for _ in self.counted(number):
            kind, length, _ = self.head()
            if kind != 3:
                raise Refused(*CBOR)
            key = self.text(length)
            order = (length, self.data[self.at - length : self.at])
            if last is not None and order <= last:
                raise Refused(*CBOR)
            last = order
            out[key] = self.item(level + 1)
        return out

    def counted(self, number):
        if number > len(self.data) - self.at:  # every item has a byte at least
            raise Refused(*CBOR)
        return range(number)

    def text(self, length):
        try:
            return self.take(length).decode("utf-8", "strict")
        except UnicodeDecodeError:
            raise Refused(*CBOR) from None


# Ed25519 by RFC 8032, with the four points of "The one rule of verification"
P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT = pow(2, (P - 1) // 4, P)
NEUTRAL = (0, 1, 1, 0)


def add(p, q):
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(number, point):
    out = NEUTRAL
    while number > 0:
        if number & 1:
            out = add(out, point)
        point, number = add(point, point), number >> 1
    return out


def is_neutral(p):
    return p[0] % P == 0 and (p[1] - p[2]) % P == 0


def point_of(key):
    number = int.from_bytes(key, "little")
    sign, y = number >> 255, number & (2**255 - 1)
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P != 0:
        x = x * ROOT % P
    if (x * x - square) % P != 0 or (x == 0 and sign == 1):
        return None
    if x & 1 != sign:
        x = P - x
    return x, y, 1, x * y % P


def encoded(p):
    inverse = pow(p[2], P - 2, P)
    x, y = p[0] * inverse % P, p[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


BASE = point_of((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def key_holds(key):
    point = point_of(key) if len(key) == 32 else None
    return point is not None and not is_neutral(point) and is_neutral(times(L, point))


def verify(key, message, signature):
    if not key_holds(key) or len(signature) != 64:
        return False
    r, s = signature[:32], int.from_bytes(signature[32:], "little")
    if s >= L:
        return False
    k = int.from_bytes(hashlib.sha512(r + key + message).digest(), "little") % L
    negative = point_of(key)
    negative = (P - negative[0], negative[1], negative[2], P - negative[3])
    return encoded(add(times(s, BASE), times(k, negative))) == r


ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def base58(data):
    number, text = int.from_bytes(data, "big"), ""
    while number > 0:
        number, rest = divmod(number, 58)
        text = ALPHABET[rest] + text
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + text


def did_of(eid):
    return "did:key:z" + base58(b"\xed\x01" + eid)


def eid_of(did):
    body = did[9:]
    if len(did) > 64 or not did.startswith("did:key:z") or body == "" or any(c not in ALPHABET for c in body):
        raise Refused("DID_INVALID")
    number = 0
    for letter in body:
        number = number * 58 + ALPHABET.index(letter)
    data = number.to_bytes((number.bit_length() + 7) // 8, "big")
    if data[:2] != b"\xed\x01" or len(data) != 34 or did_of(data[2:]) != did:
        raise Refused("DID_INVALID")
    return data[2:]


SECONDS_MAX = INTEGER_MAX // 1000
MODES = ("always_on", "session", "hourly_wake", "sleep")


def closed(value, members, optional=()):
    """Members by name, each with a check; an absent one, a wrong one and an unknown one have a code each."""
    if not isinstance(value, dict):
        raise Refused("FIELD_INVALID")
    faults = []
    for name, holds in members.items():
        if name not in value:
            if name not in optional:
                faults.append("FIELD_MISSING")
        elif not holds(value[name]):
            faults.append("FIELD_INVALID")
    if any(name not in members for name in value):
        faults.append("FIELD_UNKNOWN")
    if faults:
        raise Refused(*faults)


def integer(least, most):
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def octets(count):
    return lambda value: isinstance(value, bytes) and len(value) == count


def texts(pattern, most):
    return lambda value: isinstance(value, list) and len(value) <= most and all(isinstance(one, str) and re.fullmatch(pattern, one) for one in value)


def window_holds(value):
    closed(value, {"periodSec": integer(1, 604800), "openSec": integer(1, 604800), "offsetSec": integer(0, 604799)})
    return value["openSec"] <= value["periodSec"] and value["offsetSec"] < value["periodSec"]


LOCATOR = {
    "v": lambda value: value == 1 and not isinstance(value, bool),
    "ts": integer(0, SECONDS_MAX),
    "exp": integer(0, SECONDS_MAX),
    "gone": lambda value: value is True,
    "eid": octets(32),
    "peer": lambda value: isinstance(value, str) and re.fullmatch(f"[{ALPHABET}]{{1,64}}", value) is not None,
    "addrs": texts(r"[!-~]{1,128}", 8),
    "mbox": octets(32),
    "mode": lambda value: value in MODES,
    "window": window_holds,
    "keepers": lambda value: isinstance(value, list) and len(value) <= 4 and all(map(octets(32), value)),
    "gen": integer(0, INTEGER_MAX),
}
LOCATOR_LIFE = 86400


def locator(data, key, now_ms):
    if len(data) > 1792:
        raise Refused("TOO_LARGE")
    envelope = Cbor(data).whole()
    if not isinstance(envelope, list) or len(envelope) != 3:
        raise Refused("FIELD_INVALID")
    kind, payload, signature = envelope
    if not isinstance(kind, str) or not isinstance(payload, bytes) or not octets(64)(signature):
        raise Refused("FIELD_INVALID")
    if kind != "locator":
        raise Refused("RECORD_KIND")
    record = Cbor(payload).whole()
    closed(record, LOCATOR, optional=("gone", "window"))
    life = record["exp"] - record["ts"]
    if not (life == LOCATOR_LIFE if "gone" in record else 1 <= life <= LOCATOR_LIFE):
        raise Refused("RECORD_TTL")
    if record["ts"] * 1000 > now_ms + 120_000:
        raise Refused("RECORD_FUTURE")
    if now_ms >= record["exp"] * 1000:
        raise Refused("RECORD_EXPIRED")
    if record["gen"] > record["ts"] * 1000 + 60_000:
        raise Refused("RECORD_SEQUENCE")
    if key != b"/eid/" + record["eid"]:
        raise Refused("RECORD_KEY_MISMATCH")
    if not verify(record["eid"], b"rookery/v1/record/locator\0" + payload, signature):
        raise Refused("SIGNATURE_INVALID")
    return record


BODIES = {0x08: (232, 232), 0x09: (260, 260), 0x0A: (18, 176), 0x0B: (72, 1052672), 0x0C: (72, 1052672), 0x0D: (72, 1052672), 0xF1: (2, 2)}
SFC, RESUME, EXCLUSIVE, GROUP, RETRY, FIN_ACK = (1 << bit for bit in range(6))


def init(frame):
    if len(frame) < 24:
        raise Refused("TRUNCATED")
    version, kind, flags = frame[0], frame[1], int.from_bytes(frame[2:4], "big")
    length = int.from_bytes(frame[4:8], "big")
    if version != 1:
        raise Refused("FRAME_VERSION")
    if kind not in BODIES:
        raise Refused("FRAME_TYPE")
    if flags & (1 << 6 | 1 << 7 | 1 << 15 | RETRY | FIN_ACK):
        raise Refused("FRAME_FLAGS")
    least, most = BODIES[kind]
    if not least <= length <= most:
        raise Refused("FRAME_LENGTH")
    if kind != 0x08:
        raise Refused("FRAME_TYPE")
    if any(frame[16:24]):
        raise Refused("FRAME_ZEROS")
    if len(frame) != 256:
        raise Refused("TRUNCATED" if len(frame) < 256 else "TRAILING_BYTES")
    resume = frame[104:120]
    if any(resume) != bool(flags & RESUME):
        raise Refused("FIELD_INVALID", "FRAME_ZEROS")
    if any(frame[136:]):
        raise Refused("FRAME_ZEROS", "FIELD_INVALID")
    cuts = {"iCookie": (8, 16), "nonceI": (24, 56), "ephI": (56, 88), "target": (88, 104), "resumeId": (104, 120), "retryCookie": (120, 136)}
    return {"flags": flags, **{name: frame[a:b].hex() for name, (a, b) in cuts.items()}}


def shown(value):
    """As the vectors spell what was decoded: bytes in hex, but in CBOR as `{"$bytes": hex}`."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return [shown(one) for one in value]
    if isinstance(value, dict):
        return {name: shown(one) for name, one in value.items()}
    return value


READERS = {
    "cbor": lambda vector: Cbor(bytes.fromhex(vector["hex"])).whole(),
    "eid": lambda vector: eid_of(vector["text"]) if "text" in vector else did_of(bytes.fromhex(vector["hex"])),
    "locator": lambda vector: locator(bytes.fromhex(vector["hex"]), bytes.fromhex(vector["key"]), vector["nowMs"]),
    "pss-init": lambda vector: init(bytes.fromhex(vector["hex"])),
}


def main(folder):
    wrong = 0
    for name, read in READERS.items():
        vectors = json.loads((folder / f"{name}.json").read_text("utf-8"))
        for vector in vectors:
            want = vector.get("error", None)
            try:
                got = read(vector)
                fault = f"taken, though {want}" if want else None
                if not want and name in ("eid", "pss-init", "locator"):
                    expected = vector["decoded"]
                    seen = shown(got)
                    if isinstance(seen, dict):
                        seen = {member: seen[member] for member in expected if member in seen}
                        expected = {member: expected[member] for member in seen}
                    fault = None if seen == expected else f"{seen} instead of {expected}"
            except Refused as refused:
                known = want in refused.codes or (want in CBOR and refused.codes[0] in CBOR)
                fault = None if known else f"refused as {' or '.join(refused.codes)}, not {want}"
            if fault is not None:
                wrong += 1
                print(f"{name} {vector['id']} ({vector['note']}): {fault}")
        print(f"{name}: {len(vectors)} vectors")
    print("all agree" if wrong == 0 else f"{wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    here = pathlib.Path(__file__).resolve().parent
    sys.exit(main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "../../protocol/vectors"))
