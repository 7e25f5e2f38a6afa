  copy %x to %a0 ; @copy
  sync @close
  sync @wait
  sync @fence
  %next = getelementptr inbounds nuw float, ptr addrspace(3) %mine, i32 1
  %l = load float, ptr addrspace(3) %next, !alias.scope !13, !noalias !12 ; @read
  store float %l, ptr addrspace(1) %y
