"""A client of Tiderace for asyncio: live topics, queues and services over one connection that comes back by itself.

Begin with `connect`; what it gives is used by `async with`.
"""

from ._client import Client, connect
from ._connector import State
from ._core import Counts
from ._errors import TideraceError
from ._events import Gap, Joined, Left, Recovered, TopicEvent, Update
from ._queue_operations import Moved, Queues, ReadyMessage
from ._queues import Consumer, DurableSubscription, Queue, QueueMessage
from ._services import Conversation, Responder, ServiceHandler
from ._topic_operations import Event, Held, TopicEntry, Topics, Views
from ._topics import FromVersion, Last, Replay, Since, Subscription, Topic

__all__ = [
    "Client",
    "Consumer",
    "Conversation",
    "Counts",
    "DurableSubscription",
    "Event",
    "FromVersion",
    "Gap",
    "Held",
    "Joined",
    "Last",
    "Left",
    "Moved",
    "Queue",
    "QueueMessage",
    "Queues",
    "ReadyMessage",
    "Recovered",
    "Replay",
    "Responder",
    "ServiceHandler",
    "Since",
    "State",
    "Subscription",
    "TideraceError",
    "Topic",
    "TopicEntry",
    "TopicEvent",
    "Topics",
    "Update",
    "Views",
    "connect",
]
