{{- define "nodemanager.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "nodemanager.labels" -}}
app.kubernetes.io/name: nodemanager
app.kubernetes.io/component: {{ . }}
{{- end }}
