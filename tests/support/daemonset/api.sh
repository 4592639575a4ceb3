# How a pod asks the API for things: by curl, or by kubectl ($CLIENT). It is sourced, and uses $url, $space, $SECRETS
# and $COMPONENT. The body of a request is in $work/body, the answer in $work/answer, and why there is none in
# $work/error. All return 0, 4 where there is no such thing, or 1.

connect() { # once
  if [ "$CLIENT" = kubectl ]; then
    cat >"$work/kubeconfig" <<END
{"apiVersion": "v1", "kind": "Config", "current-context": "pod",
 "clusters": [{"name": "pod", "cluster": {"server": "$url", "certificate-authority": "$SECRETS/ca.crt"}}],
 "contexts": [{"name": "pod", "context": {"cluster": "pod", "user": "pod"}}],
 "users": [{"name": "pod", "user": {"tokenFile": "$SECRETS/token"}}]}
END
  fi
}

call_curl() { # METHOD PATH [TYPE]: returns 0, 4 where there is no such thing, or 1
  method=$1 path=$2 type=${3:-}
  set -- -sS -K - --max-time 60 -A "$COMPONENT" --cacert "$SECRETS/ca.crt" -X "$method" -o "$work/answer" \
    -w '%{http_code}' "$url/api/v1/namespaces/$space/$path"
  [ -z "$type" ] || set -- "$@" -H "Content-Type: $type" --data-binary "@$work/body"
  # By stdin, as who may list processes may read their arguments.
  code=$(printf 'header = "Authorization: Bearer %s"\n' "$(cat "$SECRETS/token")" | curl "$@" 2>"$work/error") ||
    return 1
  case $code in
    2??) return 0 ;;
    404) return 4 ;;
  esac
  head -c 300 "$work/answer" | tr '\n' ' ' >"$work/error"
  return 1
}

call_kubectl() { # ARGUMENTS: returns as call_curl does
  kubectl --kubeconfig "$work/kubeconfig" --cache-dir "$work/cache" -n "$space" "$@" \
    >"$work/answer" 2>"$work/error" && return 0
  grep -q NotFound "$work/error" && return 4
  return 1
}

read_map() { # NAME
  if [ "$CLIENT" = curl ]; then call_curl GET "configmaps/$1"; else call_kubectl get configmap "$1" -o json; fi
}

merge_map() { # NAME
  if [ "$CLIENT" = curl ]; then
    call_curl PATCH "configmaps/$1" application/merge-patch+json
  else
    call_kubectl patch configmap "$1" --type=merge --field-manager="$COMPONENT" -p "$(cat "$work/body")"
  fi
}

create() { # PLURAL
  if [ "$CLIENT" = curl ]; then
    call_curl POST "$1" application/json
  else
    call_kubectl create --field-manager="$COMPONENT" -f "$work/body"
  fi
}

delete_map() { # NAME
  if [ "$CLIENT" = curl ]; then call_curl DELETE "configmaps/$1"; else call_kubectl delete configmap "$1"; fi
}

put_map() { # NAME DATA: merge into what is there, or create it; another pod may do so at the same time
  printf '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "%s"}, "data": {%s}}' "$1" "$2" >"$work/body"
  merge_map "$1" && return 0
  [ $? -eq 4 ] || return 1
  create configmaps || merge_map "$1"
}
