import asyncio

from aioredlock import Aioredlock, LockError
from helpers import URL, show


async def main():
    manager = Aioredlock([URL], retry_count=1)
    lock = await manager.lock("printer", lock_timeout=10)
    show("locked", lock.valid, await manager.is_locked("printer"))
    try:
        await manager.lock("printer", lock_timeout=10)
    except LockError:
        show("other", "refused")
    await manager.extend(lock, lock_timeout=20)
    await manager.unlock(lock)
    show("unlocked", await manager.is_locked("printer"))
    await manager.destroy()


asyncio.run(main())
