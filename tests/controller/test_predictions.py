"""Predictions follow the Services that changed, for as many as there is room for."""

import asyncio
from collections.abc import Callable

from zoneward.controller.predictions import Prediction, Predictions, PredictionsByFamily
from zoneward.kube.objects import ObjectKey

CART, MAIL, SEARCH = ("shop", "cart"), ("shop", "mail"), ("shop", "search")


async def predicted(
    predictions: Predictions, predict: Callable[[ObjectKey], Callable[[], PredictionsByFamily] | None]
) -> list[str]:
    """Until nothing is due; what went wrong."""
    troubles: list[str] = []
    running = asyncio.create_task(
        predictions.run(predict, pause=0, on_error=lambda key, error: troubles.append(f"{key[1]}: {error}"))
    )
    while not predictions.is_idle:
        await asyncio.sleep(0.001)
    running.cancel()
    await asyncio.wait([running])
    return troubles


def fair(service: ObjectKey) -> Callable[[], PredictionsByFamily]:
    return lambda: {"IPv4": Prediction(len(service[1]) / 10, 0.0)}


async def test_services_beyond_the_limit_wait_until_another_is_deleted() -> None:
    predictions = Predictions(limit=1)
    for key in (CART, MAIL, SEARCH):
        predictions.touch(key)
    predictions.drop(MAIL)
    await predicted(predictions, fair)
    assert ([key for key, _, _ in predictions], predictions.left_out) == ([CART], 1)
    predictions.drop(CART)
    await predicted(predictions, fair)
    assert ([key for key, _, _ in predictions], predictions.left_out) == ([SEARCH], 0)


async def test_a_failing_prediction_has_no_series_and_stops_nothing() -> None:
    predictions = Predictions()
    for key in (CART, MAIL, SEARCH):
        predictions.touch(key)
    await predicted(predictions, fair)

    def predict(service: ObjectKey) -> Callable[[], PredictionsByFamily]:
        if service == CART:
            raise ValueError("no")
        if service == MAIL:
            # It is deleted while its prediction is made.
            predictions.drop(service)
        return fair(service)

    for key in (CART, MAIL, SEARCH):
        predictions.touch(key)
    assert await predicted(predictions, predict) == ["cart: no"]
    assert [key for key, _, _ in predictions] == [SEARCH]
