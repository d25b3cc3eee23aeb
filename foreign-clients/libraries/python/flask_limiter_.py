from flask import Flask
from flask_limiter import Limiter
from helpers import URL, show

app = Flask(__name__)
limiter = Limiter(lambda: "everybody", app=app, storage_uri=URL, strategy="moving-window")


@app.route("/")
@limiter.limit("3/hour")
def index():
    return "hello"


client = app.test_client()
show("answers", [client.get("/").status_code for _ in range(5)])
limiter.reset()
