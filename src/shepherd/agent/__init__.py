"""What runs on a node: plans by `pod_plan`, reports by `pod_status`, acts through `runtime`.

`agent.Agent` puts the parts together. One `pod_worker` per pod; whatever it does, `pod_plan.plan`
told it to: that is where to look for "why was it restarted?".
"""
