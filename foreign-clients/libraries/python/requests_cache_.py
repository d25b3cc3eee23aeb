import http.server
import threading

import redis
import requests_cache
from helpers import HOST, PORT, show


class Origin(http.server.BaseHTTPRequestHandler):
    asked = 0

    def do_GET(self):
        Origin.asked += 1
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_):
        pass


origin = http.server.HTTPServer((HOST, 0), Origin)
threading.Thread(target=origin.serve_forever, daemon=True).start()
backend = requests_cache.RedisCache("app", connection=redis.Redis(HOST, PORT))
session = requests_cache.CachedSession(backend=backend, expire_after=60)
url = f"http://{HOST}:{origin.server_port}/"
show("answers", [(session.get(url).text, session.get(url).from_cache) for _ in range(2)])
show("asked", Origin.asked, len(session.cache.responses))
session.cache.clear()
show("cleared", session.get(url).from_cache, Origin.asked)
