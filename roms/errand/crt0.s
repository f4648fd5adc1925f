@ Where the console begins, and where it goes at every frame.
    .section .crt0, "ax"
    .global _start
    .cpu arm7tdmi
    .arm
_start:
    b       begin
    .space  156                     @ a maker's logo belongs here; emulators with a free BIOS do not ask for it
    .ascii  "ROOKSERRAND\0"
    .ascii  "ARKE"
    .ascii  "00"
    .byte   0x96
    .space  10
    .byte   0                       @ checksum of the header, written by build.py
    .space  34
begin:
    mov     r0, #0x12               @ the stack of interrupts
    msr     cpsr_c, r0
    ldr     sp, =0x03007FA0
    mov     r0, #0x1F               @ and ours
    msr     cpsr_c, r0
    ldr     sp, =0x03007F00
    ldr     r0, =main
    mov     lr, pc
    bx      r0
stay:
    b       stay

    .global frame_interrupt
frame_interrupt:                    @ say that it was seen, to the console and to its BIOS
    mov     r0, #0x04000000
    add     r0, r0, #0x200
    ldrh    r1, [r0, #2]
    strh    r1, [r0, #2]
    ldr     r2, =0x03007FF8
    ldrh    r3, [r2]
    orr     r3, r3, r1
    strh    r3, [r2]
    bx      lr
    .pool

    .section .rodata.marker
    .balign 4
    .ascii  "SRAM_V113\0\0\0"       @ by this word emulators know that the cartridge has a battery and 32 kB
