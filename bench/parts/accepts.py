"""Would the vendor's own library have sent this body? Reads lines of {"wire": ..., "body": ...}; tells each that it would not.

The libraries describe their parameters as typed dictionaries; a body is checked against them by pydantic. Some of their lists are
declared as iterables, which would be checked lazily, that is never, so they are read as lists here.
"""
import json
import sys
import typing

from pydantic import TypeAdapter


def parameters(wire):
    if wire == "anthropic":
        import anthropic.types.message_create_params as module

        name = "MessageCreateParams"
    else:
        import openai.types.chat.completion_create_params as module

        name = "CompletionCreateParams"
    for key, loaded in list(sys.modules.items()):
        if key.split(".")[0] in ("anthropic", "openai") and hasattr(loaded, "Iterable"):
            loaded.Iterable = typing.List
    return TypeAdapter(getattr(module, name))


def ids_are_there(wire, body):
    """The types let an id be missing that the API wants."""
    for message in body["messages"]:
        for block in message["content"] if wire == "anthropic" else message.get("tool_calls") or []:
            if block["type"] in ("tool_use", "function") and not block.get("id"):
                raise ValueError("a call without an id")


adapters = {}
refused = 0
count = 0
for line in sys.stdin:
    row = json.loads(line)
    wire = row["wire"]
    adapter = adapters.setdefault(wire, None) or adapters.update({wire: parameters(wire)}) or adapters[wire]
    count += 1
    try:
        adapter.validate_python(row["body"])
        ids_are_there(wire, row["body"])
    except Exception as error:
        refused += 1
        print(f"{wire} body {count}: {str(error)[:1500]}")
print(f"{count} bodies, {refused} refused")
sys.exit(1 if refused or not count else 0)
