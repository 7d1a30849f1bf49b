"""The client's app: a process per message, as Flower starts it."""

from __future__ import annotations

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from quickstart.task import make_net, train

app = ClientApp()


@app.train()
def fit(message: Message, context: Context) -> Message:
    net = make_net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    loss, samples = train(net, int(context.run_config["clients"]), int(context.node_config["partition-id"]))
    metrics = MetricRecord({"train_loss": loss, "num-examples": samples})
    return Message(
        RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics}), reply_to=message
    )
