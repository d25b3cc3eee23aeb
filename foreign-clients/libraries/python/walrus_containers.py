from helpers import HOST, PORT, show
from walrus import Database

db = Database(HOST, PORT)
queue = db.List("queue")
queue.extend(["a", "b"])
show("list", queue.pop(), len(queue), list(queue))
index = db.autocomplete()
index.store("1", "Cellar of wine")
show("autocomplete", list(index.search("cell")))
show("lock", db.lock("lock", ttl=1000).acquire())
