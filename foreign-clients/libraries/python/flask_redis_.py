from flask import Flask
from flask_redis import FlaskRedis
from helpers import URL, show

app = Flask(__name__)
app.config["REDIS_URL"] = URL
store = FlaskRedis(app)
show("set", store.set("a", "1", ex=60), store.get("a"), store.incr("a"))
show("hash", store.hset("h", "f", "v"), store.hgetall("h"), store.exists("a"))
