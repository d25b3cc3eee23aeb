import redis
from flask import Flask, session
from flask_session import Session
from helpers import HOST, PORT, near, show

app = Flask(__name__)
r = redis.Redis(HOST, PORT)
app.config.update(SESSION_TYPE="redis", SESSION_REDIS=r, PERMANENT_SESSION_LIFETIME=600)
Session(app)


@app.route("/visit")
def visit():
    session["visits"] = session.get("visits", 0) + 1
    return str(session["visits"])


@app.route("/leave")
def leave():
    session.clear()
    return "bye"


with app.test_client() as client:
    show("visits", [client.get("/visit").text for _ in range(3)])
    show("ttl", [near(r.ttl(key), 600) for key in r.keys("session:*")])
    show("leave", client.get("/leave").text, r.keys("session:*"), client.get("/visit").text)
