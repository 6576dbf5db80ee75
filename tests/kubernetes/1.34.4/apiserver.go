// Package kubernetes makes kube-apiserver a dependency, so that go.mod and go.sum pin all that it is built from.
package kubernetes

import _ "k8s.io/kubernetes/cmd/kube-apiserver"
