"""`holdfast demo`: a sandbox and the real controllers in one process, with a story.

`environment` starts the sandbox and the controllers. `stories` has the stories: `story` scales workloads up and down;
`training` creates training jobs, for which `kueue` plays the part of Kueue; both use `manifests`. `status` reads the state
at one moment, with ProvisioningRequests and PodGroups from `gangs` and the cost from `money`; `view` draws it, with
`layout`; `changes` describes the difference of two. Only `environment`, the stories and `kueue` write to the
sandbox. `event_times` changes how clients over HTTP read Events.
"""
