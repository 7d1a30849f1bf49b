"""The app that Flower starts on a client for each message."""

from __future__ import annotations

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from counterpoise.engines.flower import client
from counterpoise.engines.flower.workplaces import take_seat

app = ClientApp()


def hello(message: Message, context: Context) -> Message:
    return _answer(message, context, client.say_hello)


def train(message: Message, context: Context) -> Message:
    return _answer(message, context, client.train)


def measure(message: Message, context: Context) -> Message:
    return _answer(message, context, client.measure_models)


def _answer(message: Message, context: Context, handler: client.Handler) -> Message:
    return client.answer(message, lambda: take_seat(context.run_config, context.node_config), handler)


app.query("hello")(hello)
app.train()(train)
app.evaluate("measure")(measure)
