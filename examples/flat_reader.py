"""The reference reader of `heurgen emit MODEL --target json`: all that a launcher in another language has to do."""

BINARY = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b if b else 0.0,
    "//": lambda a, b: a // b if b else 0.0,  # rounds down; % has the sign of b
    "%": lambda a, b: a % b if b else 0.0,
    "min": min,  # the first of equals, and the first beside a NaN
    "max": max,
}


def evaluate(program, features):
    stack = []  # of doubles
    for step in program:
        if isinstance(step, list):
            b = stack.pop()
            stack.append(-b if step == ["neg"] else BINARY[step[0]](stack.pop(), b))
        else:
            stack.append(float(features[step] if isinstance(step, str) else step))
    return stack.pop()


def known(feature, value):
    if isinstance(value, str):
        value = feature.get("aliases", {}).get(value, value)
    if feature.get("unknown") == "error" and value not in feature["values"]:
        raise ValueError(f"unknown {feature['name']} {value!r}, known: {', '.join(feature['values'])}")
    return bool(value) if feature["type"] == "bool" else value


def select(table, vendor, features, device=None, capability=None):
    """The config of a launch. Numbers are compared exactly, be they ints or doubles; NaN fails every `x <= le`."""
    row = {f["name"]: known(f, features[f["name"]]) for f in table["features"]}
    row |= {d["name"]: evaluate(d["program"], features) for d in table["derived"]}
    own = {s["device"]: s for s in table["selectors"] if s["vendor"] == vendor}
    alike = {s["capability"]: s for s in own.values() if "capability" in s}
    found = own.get(device or "") or alike.get(capability, own[None])
    at = found["root"]
    while at >= 0:
        x = row[(test := found["rows"][at])["column"]]
        at = test["yes"] if (x <= test["le"] if "le" in test else x in test["in"]) else test["no"]
    return dict(zip(found["parameters"], found["configs"][~at], strict=True))
