"""Admission policies: what their bindings make of them, and what they make of a write.

Source: "Validating Admission Policy" and "Mutating Admission Policy" in the documentation;
apiserver pkg/admission/plugin/policy.
"""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from shepherd.api import errors
from shepherd.api.cel.expressions import CelError
from shepherd.api.decode import check_object
from shepherd.api.kinds.admissions import VARIABLES
from shepherd.api.patch import json_patch
from shepherd.api.resource import Object, Resource
from shepherd.api.typed import merge, root
from shepherd.server.dynamic.conditions import Conditions
from shepherd.server.dynamic.evaluation import Evaluation
from shepherd.server.dynamic.matching import Matching
from shepherd.server.dynamic.parameters import Parameters, ParametersError
from shepherd.server.dynamic.subject import Subject
from shepherd.server.ownership import schema_of

_MESSAGE_BYTES = 5 * 1024
_CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413}


@dataclass(frozen=True, slots=True)
class Binding:
    """What puts a policy to use."""

    name: str
    matching: Matching
    param: Object | None
    actions: frozenset[str]

    @classmethod
    def read(cls, binding: Object) -> "Binding":
        spec = binding["spec"]
        return cls(
            binding["metadata"]["name"],
            Matching.of_policy(spec.get("matchResources")),
            spec.get("paramRef"),
            frozenset(spec.get("validationActions") or ()),
        )

    async def covers(self, subject: Subject, parameters: Parameters) -> bool:
        return await self.matching.find(subject, parameters.siblings) is not None


class Policy:
    """What both kinds of policies have in common."""

    def __init__(self, policy: Object, bindings: Iterable[Object], parameters: Parameters) -> None:
        spec = policy["spec"]
        self.name: str = policy["metadata"]["name"]
        self.spec: Object = spec
        self.parameters = parameters
        self.ignores_failures = spec.get("failurePolicy") == "Ignore"
        self._matching = Matching.of_policy(spec.get("matchConstraints"))
        self._conditions = Conditions(spec.get("matchConditions") or ())
        self._variables = {one["name"]: one["expression"] for one in spec.get("variables") or ()}
        self._bindings = [Binding.read(binding) for binding in bindings]

    async def target(self, subject: Subject) -> Resource | None:
        """As which resource it is to see a write; None if it is not meant."""
        return await self._matching.find(subject, self.parameters.siblings)

    async def uses(
        self, subject: Subject, resource: Resource
    ) -> AsyncGenerator[tuple[Binding, Evaluation], None]:
        """Its expressions for each binding and parameter. Raises RefusedError for a binding that
        cannot be used, unless failures are ignored."""
        for binding in self._bindings:
            if not await binding.covers(subject, self.parameters):
                continue
            try:
                kind, namespace = self.spec.get("paramKind"), subject.asked.route.namespace
                params = await self.parameters.find(kind, binding.param, namespace)
            except ParametersError as error:
                self._fail(binding, f"failed to configure binding: {error}")
                continue
            for param in params:
                evaluation = await self._evaluation(subject, resource, param)
                verdict = await self._conditions.judge(evaluation)
                if verdict.holds and verdict.problems:
                    self._fail(binding, "[" + ", ".join(verdict.problems) + "]")
                elif verdict.holds:
                    yield binding, evaluation

    async def _evaluation(self, subject: Subject, resource: Resource, param: Any) -> Evaluation:
        namespace = await subject.namespace() if subject.asked.route.namespace else None
        values = await subject.values(resource)
        values |= {"params": param, "namespaceObject": namespace}
        return Evaluation(VARIABLES, values, subject.decide, self._variables)

    def _fail(self, binding: Binding, cause: str) -> None:
        if not self.ignores_failures:
            raise RefusedError(binding, cause)


class RefusedError(Exception):
    """A policy refuses a write."""

    def __init__(self, binding: Binding, cause: str, reason: str = "Invalid") -> None:
        super().__init__(cause)
        self.binding = binding
        self.reason = reason

    def error(self, subject: Subject, title: str, *, bare: bool = False) -> errors.ApiError:
        """The answer; `title` says which policy it was."""
        message = f"{title} with binding '{self.binding.name}' denied request: {self}"
        route = subject.asked.route
        found = errors.forbidden(route.group, route.resource.plural, subject.name, message)
        found.details["causes"] = [{"message": message}]
        code = found.code if bare else _CODES.get(self.reason, 422)
        text = message if bare else found.message
        return errors.ApiError(code, self.reason, text, details=found.details)


class ValidatingPolicy(Policy):
    """A ValidatingAdmissionPolicy with its bindings."""

    async def validate(self, subject: Subject, resource: Resource) -> None:
        """Raises ApiError for a write that it refuses."""
        try:
            async with aclosing(self.uses(subject, resource)) as uses:
                async for binding, evaluation in uses:
                    for validation in self.spec.get("validations") or ():
                        await self._apply(subject, binding, evaluation, validation)
                    await self._annotate(binding, evaluation)
        except RefusedError as refused:
            raise refused.error(subject, f"ValidatingAdmissionPolicy '{self.name}'") from None

    async def _apply(
        self, subject: Subject, binding: Binding, evaluation: Evaluation, validation: Object
    ) -> None:
        text, reason = validation["expression"], "Invalid"
        try:
            if await evaluation.value(text) is True:
                return
            reason = validation.get("reason") or reason
            message = await _message(validation, evaluation)
        except CelError as error:
            if self.ignores_failures:
                return
            message = f"expression '{text}' resulted in error: {error}"
        if "Warn" in binding.actions:
            subject.asked.warnings.append(
                f"Validation failed for ValidatingAdmissionPolicy '{self.name}' with binding "
                f"'{binding.name}': {message}"
            )
        if "Deny" in binding.actions:
            raise RefusedError(binding, message, reason)

    async def _annotate(self, binding: Binding, evaluation: Evaluation) -> None:
        """There is no audit log to write to; but an annotation that fails refuses the write."""
        for annotation in self.spec.get("auditAnnotations") or ():
            try:
                await evaluation.value(annotation["valueExpression"])
            except CelError as error:
                self._fail(binding, str(error))


async def _message(validation: Object, evaluation: Evaluation) -> str:
    if text := validation.get("messageExpression"):
        try:
            found = await evaluation.value(text)
        except CelError:
            found = None
        found = found.strip() if isinstance(found, str) else ""
        if found and "\n" not in found and len(found.encode()) <= _MESSAGE_BYTES:
            return found
    message: str = (validation.get("message") or "").strip()
    return message or f"failed expression: {validation['expression'].strip()}"


class MutatingPolicy(Policy):
    """A MutatingAdmissionPolicy with its bindings."""

    @property
    def again(self) -> bool:
        """It wants to see what others make of the object after it."""
        return self.spec.get("reinvocationPolicy") == "IfNeeded"

    async def mutate(self, subject: Subject, resource: Resource) -> bool:
        """Whether it changed the object. Raises ApiError."""
        if (await subject.view(resource))[0] is None:
            return False
        before = subject.asked.obj
        try:
            async with aclosing(self.uses(subject, resource)) as uses:
                async for binding, evaluation in uses:
                    await self._apply(subject, resource, binding, evaluation)
        except RefusedError as refused:
            raise refused.error(subject, f"policy '{self.name}'", bare=True) from None
        return subject.asked.obj != before

    async def _apply(
        self, subject: Subject, resource: Resource, binding: Binding, evaluation: Evaluation
    ) -> None:
        for mutation in self.spec["mutations"]:
            present, _ = await subject.view(resource)
            assert present is not None
            seen = evaluation.about(present)
            try:
                changed = await _mutated(mutation, present, seen, resource)
                checked = check_object(
                    changed, resource.group, resource.version, resource.kind,
                    validation="Ignore", check=resource.check,
                ).object  # fmt: skip
            except (CelError, errors.ApiError) as error:
                self._fail(binding, str(error))
                continue
            resource.default(checked)
            await subject.rewrite(resource, checked)


def _tests(operations: Any) -> bool:
    """Whether a patch has operations that may fail by design."""
    return isinstance(operations, list) and any(
        isinstance(one, dict) and one.get("op") == "test" for one in operations
    )


async def _mutated(
    mutation: Object, present: Object, evaluation: Evaluation, resource: Resource
) -> Object:
    """Raises CelError, ApiError."""
    if mutation.get("patchType") == "JSONPatch":
        operations = await evaluation.value(mutation["jsonPatch"]["expression"])
        try:
            patched: Object = json_patch(present, operations)
        except errors.ApiError as error:
            if _tests(operations):
                return present  # a test that fails means that nothing is to be done
            raise CelError(f"JSON Patch: {error}") from None
        return patched
    config = await evaluation.value(mutation["applyConfiguration"]["expression"])
    if not isinstance(config, dict):
        raise CelError("an apply configuration must be an Object")
    head = {"kind": resource.kind, "apiVersion": resource.api_version}
    merged: Object = merge(present, config | head, root(schema_of(resource)))
    return merged
