"""Answers calls into an environment: methods, attributes, frames, questions about wrappers.

An exception here is an error of the call, not a fault of the environment: it is returned as text.
"""

from __future__ import annotations

from typing import Any

import cloudpickle  # type: ignore[import-untyped, unused-ignore]

from ninelives.spec.call import CallRequest, CallResult
from ninelives.spec.phase import Phase
from ninelives.worker.error_report import error_report


def answer(env: Any, request: CallRequest) -> CallResult:
    """Carry out a call. The result is pickled once here, where its error can still be reported."""
    try:
        is_read = request.verb not in ("call", "set") or _is_attribute(env, request)
        value = _ANSWERS[request.verb](env, request)
        cloudpickle.dumps(value)
        return CallResult(value, is_read=is_read)
    except Exception as error:
        report = error_report(error, Phase.CALL)
        return CallResult(error=report["summary"], traceback=report["traceback"], refusal=report.get("refusal", ""))


def _attribute(env: Any, name: str) -> Any:
    lookup = getattr(env, "get_wrapper_attr", None)
    return lookup(name) if lookup is not None else getattr(env, name)


def _is_attribute(env: Any, request: CallRequest) -> bool:
    return request.verb == "call" and not callable(_attribute(env, request.name))


def _call(env: Any, request: CallRequest) -> Any:
    target = _attribute(env, request.name)
    return target(*request.args, **request.kwargs) if callable(target) else target


def _get(env: Any, request: CallRequest) -> Any:
    return _attribute(env, request.name)


def _set(env: Any, request: CallRequest) -> None:
    setter = getattr(env, "set_wrapper_attr", None)
    if setter is not None:
        setter(request.name, request.args[0])
    else:
        setattr(env, request.name, request.args[0])


def _render(env: Any, request: CallRequest) -> Any:
    return env.render()


def _stand(env: Any, request: CallRequest) -> None:
    return None


def _is_wrapped(env: Any, request: CallRequest) -> bool:
    """Whether any layer is an instance of the class ``"module:qualname"``; by name, so that nothing is imported."""
    layer = env
    while layer is not None:
        if any(f"{base.__module__}:{base.__qualname__}" == request.name for base in type(layer).__mro__):
            return True
        layer = getattr(layer, "env", None)
    return False


_ANSWERS = {"call": _call, "get": _get, "set": _set, "render": _render, "is_wrapped": _is_wrapped, "stand": _stand}
