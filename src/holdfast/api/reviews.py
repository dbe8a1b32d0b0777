"""Kinds that the API server answers and never stores: who is the caller, and what may a user do."""

from typing import ClassVar

from holdfast.api.meta import Object, Wire


class ResourceAttributes(Wire, frozen=True, kw_only=True):
    group: str = ""
    resource: str = ""
    subresource: str = ""
    verb: str = ""
    namespace: str = ""
    name: str = ""


class AccessReviewSpec(Wire, frozen=True, kw_only=True):
    resource_attributes: ResourceAttributes | None = None
    user: str = ""  # of a SubjectAccessReview
    groups: tuple[str, ...] = ()


class AccessReviewStatus(Wire, frozen=True, kw_only=True):
    allowed: bool = False
    reason: str = ""


class SelfSubjectAccessReview(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "authorization.k8s.io/v1"
    kind: ClassVar[str] = "SelfSubjectAccessReview"
    plural: ClassVar[str] = "selfsubjectaccessreviews"
    namespaced: ClassVar[bool] = False

    spec: AccessReviewSpec = AccessReviewSpec()
    status: AccessReviewStatus = AccessReviewStatus()


class SubjectAccessReview(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "authorization.k8s.io/v1"
    kind: ClassVar[str] = "SubjectAccessReview"
    plural: ClassVar[str] = "subjectaccessreviews"
    namespaced: ClassVar[bool] = False

    spec: AccessReviewSpec = AccessReviewSpec()
    status: AccessReviewStatus = AccessReviewStatus()


class UserInfo(Wire, frozen=True, kw_only=True):
    username: str = ""


class SelfSubjectReviewStatus(Wire, frozen=True, kw_only=True):
    user_info: UserInfo = UserInfo()


class SelfSubjectReview(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "authentication.k8s.io/v1"
    kind: ClassVar[str] = "SelfSubjectReview"
    plural: ClassVar[str] = "selfsubjectreviews"
    namespaced: ClassVar[bool] = False

    status: SelfSubjectReviewStatus = SelfSubjectReviewStatus()
