// CRDs of other projects, of which airgate's manifests have objects. Nothing here is built: the module only pins
// whose files `fetch` copies.
module airgate.io/testbed/crds

go 1.24.0

require (
	github.com/cert-manager/cert-manager v1.19.1
	github.com/operator-framework/api v0.45.0
	github.com/prometheus-operator/prometheus-operator v0.85.0
)
