"""Puts a small real tool-calling model behind an OpenAI-compatible server: needle_server.py PORT.

A user's turn goes to the model, which chooses tools and fills in arguments; a turn that ends in tool results is answered with the
first line of the last result, since the model was made for choosing and not for talking.
"""
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

os.environ.update(NEEDLE_TELEMETRY="0", HF_HUB_OFFLINE="1")
import needle

one_at_a_time = threading.Lock()


def choose(tools, prompt):
    declared = [{key: tool["function"].get(key) for key in ("name", "description", "parameters")} for tool in tools]
    with one_at_a_time:
        model = needle.Needle(tools=declared)
        try:
            return model.complete(prompt).get("function_calls") or []
        finally:
            model.close()


class Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        last = request["messages"][-1]
        calls, text = [], ""
        if last["role"] == "user" and request.get("tools"):
            calls = choose(request["tools"], last["content"])
        if not calls:
            text = (last.get("content") or "").strip().split("\n")[0][:200] or "nothing"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.delta(role="assistant", content=text)
        for index, call in enumerate(calls):
            function = {"name": call["name"], "arguments": json.dumps(call["arguments"], ensure_ascii=False)}
            self.delta(tool_calls=[{"index": index, "id": f"needle_{index}", "type": "function", "function": function}])
        self.chunk(choices=[{"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}])
        self.chunk(choices=[], usage={"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110})
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def delta(self, **delta):
        self.chunk(choices=[{"index": 0, "delta": delta, "finish_reason": None}])

    def chunk(self, **fields):
        self.wfile.write(b"data: " + json.dumps({"object": "chat.completion.chunk", **fields}).encode() + b"\n\n")


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Server)
print("listening", flush=True)
server.serve_forever()
