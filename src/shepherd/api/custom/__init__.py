"""Custom resources: what a CustomResourceDefinition makes of its objects.

`definition` turns a CRD into the `Resource` declarations that the API serves; `structural` holds
its schemas in a form that prunes, fills in and validates quickly; `rules` and `cel` evaluate its
x-kubernetes-validations; `schemarules` says which schemas are accepted.
"""
