  copy %x to %a0 ; @copy
uniform|  %g = load float, ptr addrspace(1) %U
dead|  %g = load float, ptr addrspace(1) %u
plain|  %g = load float, ptr addrspace(1) %u
masked|  %few = icmp ult i32 %t, %n
masked|  br i1 %few, label %some, label %rest
masked|some:
masked|  %g0 = load float, ptr addrspace(1) %u
masked|  br label %rest
masked|rest:
masked|  %g = phi float [ 0.0, %entry ], [ %g0, %some ]
  sync @wait
  sync @meet
  %l = load float, ptr addrspace(3) %other, !alias.scope !13, !noalias !12 ; @read
uniform|  %r = fadd float %l, %g
masked|  %r = fadd float %l, %g
plain|  %r = fadd float %l, %g
dead|  %r = fadd float %l, 0.0
  store float %r, ptr addrspace(1) %y
