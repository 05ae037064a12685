"""The aggregation layer: groups that other API servers serve, behind this one.

`remotes` knows the APIServices that name a Service, and whether they answer; `relay` passes
requests on to them as whoever sent them. Source: "Kubernetes API Aggregation Layer";
kube-aggregator pkg/apiserver.
"""
