"""Calls into an environment from outside the step."""

import threading

import gymnasium
import pytest
from gymnasium.wrappers import OrderEnforcing, TimeLimit

from ninelives.spec.call import VERBS, CallRequest
from ninelives.worker.calls import answer


class Nest(gymnasium.Env):
    """Has a method, attributes, a frame, and things that go wrong."""

    eggs = 3

    def lay(self, count, colour="white"):
        return f"{count} {colour} eggs"

    def crack(self):
        raise ValueError("too early")

    def lock(self):
        return threading.Lock()

    def render(self):
        return "a frame"


@pytest.fixture
def env():
    return TimeLimit(OrderEnforcing(Nest(), disable_render_order_enforcing=True), 10)


def ask(env, verb, name="", *args, **kwargs):
    return answer(env, CallRequest(verb, name, args, kwargs))


def test_methods_are_called_with_their_arguments_through_wrappers(env):
    assert ask(env, "call", "lay", 2, colour="blue").value == "2 blue eggs"


def test_a_call_without_arguments_on_an_attribute_reads_it(env):
    assert ask(env, "call", "eggs").value == 3


def test_attributes_are_read_and_set_where_they_live(env):
    assert ask(env, "get", "eggs").value == 3
    assert ask(env, "set", "eggs", 5).error == ""
    assert env.unwrapped.eggs == 5
    assert ask(env, "get", "eggs").value == 5


def test_environments_without_gymnasiums_lookup_work_too():
    class Bare:
        eggs = 1

    bare = Bare()
    assert ask(bare, "set", "eggs", 2).error == ""
    assert ask(bare, "get", "eggs").value == 2


def test_rendering_gives_the_frame(env):
    assert ask(env, "render").value == "a frame"


@pytest.mark.parametrize(
    ("wrapper", "is_there"),
    [
        (TimeLimit, True),
        (OrderEnforcing, True),
        (Nest, True),
        (gymnasium.Wrapper, True),
        (gymnasium.ActionWrapper, False),
    ],
)
def test_wrappers_are_found_at_any_depth_and_by_their_base_classes(env, wrapper, is_there):
    name = f"{wrapper.__module__}:{wrapper.__qualname__}"
    assert ask(env, "is_wrapped", name).value is is_there


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (CallRequest("call", "crack"), "ValueError: too early"),
        (CallRequest("call", "fly"), "fly"),
        (CallRequest("get", "wings"), "wings"),
        (CallRequest("call", "lay"), "TypeError"),
        (CallRequest("call", "lock"), "pickle"),
    ],
)
def test_a_mistake_travels_back_as_text_with_its_traceback(env, request_, words):
    result = answer(env, request_)
    assert result.value is None
    assert words in result.error
    assert "Traceback" in result.traceback


def test_every_verb_has_an_answer(env):
    for verb in VERBS:
        assert "KeyError" not in ask(env, verb, "eggs", 1).error
