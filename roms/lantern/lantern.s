; Lantern: carry the light over pits and past moths to the lighthouse, three nights long.
; A platformer for the NES (NROM). All of its state is in the zero page; MEMORY.md tells it by name.

.segment "HEADER"
  .byte "NES", $1A, 1, 1, $01, 0        ; 16 kB of code, 8 kB of pictures, two pages side by side
  .res 8, 0

TITLE = 0
PLAY = 1
DYING = 2
CLEAR = 3
WON = 4
OVER = 5

NIGHTS = 3
HOUSE_X = 472                           ; where the lighthouse stands
LAST_X = 495

.segment "ZEROPAGE"
frame:      .res 2
pad:        .res 1                      ; a b select start up down left right, from the high bit down
fresh:      .res 1
mode:       .res 1
night:      .res 1
lives:      .res 1
x_page:     .res 1
x_low:      .res 1
x_part:     .res 1                      ; sixteenths of a pixel
y_pos:      .res 1
y_part:     .res 1
x_speed:    .res 1                      ; sixteenths of a pixel a frame, signed
y_speed:    .res 1
grounded:   .res 1
facing:     .res 1                      ; $40 to the left, as a sprite has it
time:       .res 3                      ; decimal digits; 000 on the title
time_part:  .res 1
flag:       .res 1                      ; 1 once the lighthouse of this night is lit
wait:       .res 1
scroll_page: .res 1
scroll_low: .res 1
moth_page:  .res 2
moth_low:   .res 2
moth_y:     .res 2
moth_way:   .res 2                      ; frames until it turns, the high bit says where it goes
drawn:      .res 1                      ; set when a frame's work is done, cleared by the console
column:     .res 1
row:        .res 1
height:     .res 1
pointer:    .res 2
at_page:    .res 1
at_low:     .res 1
sprite_x:   .res 1
sprite_y:   .res 1
sprite_bits: .res 1

OAM = $0200

.segment "CODE"

reset:
  sei
  cld
  ldx #$40
  stx $4017
  ldx #$FF
  txs
  inx
  stx $2000
  stx $2001
  stx $4010
@warm:
  bit $2002
  bpl @warm
  txa
@clear:
  sta $00,x
  sta $0300,x
  sta $0400,x
  sta $0500,x
  sta $0600,x
  sta $0700,x
  inx
  bne @clear
@warm2:
  bit $2002
  bpl @warm2
  jsr hide_sprites
  jsr show_title

forever:
  lda drawn
  bne forever                           ; the interrupt clears it once a frame
  jsr read_pad
  jsr tick
  inc frame
  bne :+
  inc frame+1
: lda #1
  sta drawn
  jmp forever

; Once a frame: sprites to the screen, and where the screen begins.
nmi:
  pha
  lda drawn
  beq @late
  lda #0
  sta $2003
  lda #>OAM
  sta $4014
  lda $2002
  lda scroll_low
  sta $2005
  lda #0
  sta $2005
  lda scroll_page
  and #1
  ora #$80
  sta $2000
  lda #0
  sta drawn
@late:
  pla
irq:
  rti

read_pad:
  ldx pad
  lda #1
  sta $4016
  sta pad
  lsr a
  sta $4016
@bit:
  lda $4016
  lsr a
  rol pad
  bcc @bit
  txa
  eor #$FF
  and pad
  sta fresh
  rts

tick:
  ldx mode
  lda ticks_low,x
  sta pointer
  lda ticks_high,x
  sta pointer+1
  jmp (pointer)

ticks_low:  .byte <tick_title, <tick_play, <tick_dying, <tick_clear, <tick_end, <tick_end
ticks_high: .byte >tick_title, >tick_play, >tick_dying, >tick_clear, >tick_end, >tick_end

tick_title:
  lda fresh
  and #$10
  beq @stay
  lda #3
  sta lives
  lda #0
  sta night
  jmp begin_night
@stay:
  rts

tick_end:
  lda fresh
  and #$10
  beq @stay
  jmp show_title
@stay:
  rts

tick_dying:
  dec wait
  bne draw_all
  dec lives
  bne @again
  lda #OVER
  sta mode
  jmp show_words
@again:
  jmp begin_night

tick_clear:
  dec wait
  bne draw_all
  inc night
  lda night
  cmp #NIGHTS
  bcc @next
  lda #WON
  sta mode
  jmp show_words
@next:
  jmp begin_night

draw_all:
  jmp draw

tick_play:
  jsr count_time
  jsr walk
  jsr fall
  jsr fly_moths
  jsr aim
  jsr look_for_end
  jmp draw

; Time runs one digit at a time, every 24 frames.
count_time:
  inc time_part
  lda time_part
  cmp #24
  bcc @done
  lda #0
  sta time_part
  ldx #2
@borrow:
  dec time,x
  bpl @left
  lda #9
  sta time,x
  dex
  bpl @borrow
@left:
  lda time
  ora time+1
  ora time+2
  bne @done
  jmp die
@done:
  rts

; To the left and to the right, faster with B, stopped by a step that is too high.
walk:
  lda #0
  sta x_speed
  lda pad
  and #$03
  beq @done
  cmp #$03
  beq @done
  lsr a                                 ; right in carry
  bcc @left
  lda #0
  sta facing
  lda #24
  bit pad
  bvc :+
  lda #34
: sta x_speed
  jmp @go
@left:
  lda #$40
  sta facing
  lda #256-24
  bit pad
  bvc :+
  lda #256-34
: sta x_speed
@go:
  jmp move_x
@done:
  rts

move_x:
  lda x_low
  sta at_low
  lda x_page
  sta at_page
  lda x_part                            ; part and speed in sixteenths: whole pixels out of their sum
  clc
  adc x_speed
  pha
  and #$0F
  sta x_part
  pla
  jsr sixteenth
  jsr add_to_at
  lda at_page
  cmp #$FF                              ; beyond the left rim
  beq @stop
  cmp #1
  bcc @inside
  lda at_low
  cmp #<LAST_X
  bcs @stop
@inside:
  jsr highest_ground
  sec
  sbc #14                               ; two pixels are no wall
  cmp y_pos
  bcc @stop
  lda at_low
  sta x_low
  lda at_page
  sta x_page
@stop:
  rts

; a / 16 with its sign
sixteenth:
  cmp #$80
  ror a
  cmp #$80
  ror a
  cmp #$80
  ror a
  cmp #$80
  ror a
  rts

add_to_at:
  tax
  clc
  adc at_low
  sta at_low
  lda #0
  adc at_page
  sta at_page
  cpx #$80
  bcc @done
  dec at_page
@done:
  rts

; How high the top of the ground is below the feet at at_page, at_low: the higher of two columns.
highest_ground:
  lda at_low
  clc
  adc #4
  tax
  lda at_page
  adc #0
  jsr ground
  sta height
  lda at_low
  clc
  adc #11
  tax
  lda at_page
  adc #0
  jsr ground
  cmp height
  bcc @done
  lda height
@done:
  rts

; Row of pixels where the ground of page a, pixel x begins; 255 over a pit.
ground:
  lsr a
  txa
  ror a                                 ; nine bits of x, through 16
  lsr a
  lsr a
  lsr a
  and #$1F
  jsr column_height
  tax
  lda tops,x
  rts

; Height of column a of this night.
column_height:
  ldx night
  clc
  adc nights,x
  tax
  lda land,x
  rts

tops: .byte 255, 224, 208, 192, 176, 160, 144, 128

; A leaps from the ground, the earth pulls.
fall:
  lda x_low
  sta at_low
  lda x_page
  sta at_page
  lda grounded
  beq @air
  bit fresh
  bpl @air
  lda #256-60
  sta y_speed
  lda #0
  sta grounded
@air:
  lda y_speed
  bmi @pull
  cmp #60
  bcs @move
@pull:
  clc
  adc #3
  sta y_speed
@move:
  lda y_part
  clc
  adc y_speed
  pha
  and #$0F
  sta y_part
  pla
  jsr sixteenth
  clc
  adc y_pos
  sta y_pos
  cmp #232
  bcs die
  lda y_speed
  bmi @rising
  jsr highest_ground
  sec
  sbc #16
  cmp y_pos
  beq @land
  bcs @rising                           ; the ground is further down
@land:
  sta y_pos
  lda #0
  sta y_speed
  sta y_part
  lda #1
  sta grounded
  rts
@rising:
  lda #0
  sta grounded
  rts

die:
  lda #DYING
  sta mode
  lda #48
  sta wait
  rts

; Moths fly there and back, and up and down as they do.
fly_moths:
  ldx #1
@moth:
  lda moth_page,x
  cmp #$FF
  beq @next
  lda moth_way,x
  bmi @back
  inc moth_low,x
  bne :+
  inc moth_page,x
: jmp @count
@back:
  lda moth_low,x
  bne :+
  dec moth_page,x
: dec moth_low,x
@count:
  dec moth_way,x
  lda moth_way,x
  and #$7F
  bne @flutter
  lda moth_way,x
  eor #$80
  ora #64
  sta moth_way,x
@flutter:
  lda moth_way,x
  and #$1F
  cmp #16
  bcc @up
  inc moth_y,x
  jmp @touch
@up:
  dec moth_y,x
@touch:
  jsr touches
@next:
  dex
  bpl @moth
  rts

touches:
  lda moth_low,x
  sec
  sbc x_low
  tay
  lda moth_page,x
  sbc x_page
  bne @left
  cpy #12
  bcc @near
  rts
@left:
  cmp #$FF
  bne @far
  cpy #256-5
  bcc @far
@near:
  lda moth_y,x
  sec
  sbc y_pos
  clc
  adc #5
  cmp #19
  bcs @far
  jmp die
@far:
  rts

; The screen follows: nothing in the first half, all of it from there.
aim:
  lda x_low
  sec
  sbc #112
  tax
  lda x_page
  sbc #0
  bmi @first
  bne @last
  stx scroll_low
  lda #0
  sta scroll_page
  rts
@first:
  lda #0
  sta scroll_low
  sta scroll_page
  rts
@last:
  lda #0
  sta scroll_low
  lda #1
  sta scroll_page
  rts

look_for_end:
  lda mode
  cmp #PLAY
  bne @done
  lda x_page
  beq @done
  lda x_low
  cmp #<HOUSE_X
  bcc @done
  lda #1
  sta flag
  lda #CLEAR
  sta mode
  lda #72
  sta wait
@done:
  rts

; ---- pictures ------------------------------------------------------------------------------------------------------

hide_sprites:
  ldx #0
  lda #$F8
: sta OAM,x
  inx
  bne :-
  rts

; Everything that moves, as sprites: x counts through their table.
draw:
  jsr hide_sprites
  ldx #0
  jsr draw_status
  jsr draw_bearer
  ldy #1
@moth:
  jsr draw_moth
  dey
  bpl @moth
  rts

draw_status:
  ldy #0
@digit:
  lda #16
  sta OAM,x
  lda time,y
  clc
  adc #'0'
  sta OAM+1,x
  lda #1
  sta OAM+2,x
  lda status_x,y
  sta OAM+3,x
  inx
  inx
  inx
  inx
  iny
  cpy #3
  bcc @digit
  lda #16
  sta OAM,x
  sta OAM+4,x
  lda #$1E
  sta OAM+1,x
  lda lives
  clc
  adc #'0'
  sta OAM+5,x
  lda #1
  sta OAM+2,x
  sta OAM+6,x
  lda #16
  sta OAM+3,x
  lda #26
  sta OAM+7,x
  txa
  clc
  adc #8
  tax
  rts

status_x: .byte 216, 224, 232

draw_bearer:
  lda x_low
  sec
  sbc scroll_low
  sta sprite_x
  lda y_pos
  sta sprite_y
  dec sprite_y
  lda facing
  sta sprite_bits
  lda mode
  cmp #DYING
  bne :+
  lda sprite_bits
  ora #$80
  sta sprite_bits
: ldy #$10
  lda grounded
  bne :+
  ldy #$18
  bne @looks
: lda x_speed
  beq @looks
  lda frame
  and #8
  beq @looks
  ldy #$14
@looks:
  lda sprite_bits
  asl a                                 ; mirrored: the right half first
  bpl @plain
  jsr @right
  jsr @shift
  jsr @left
  rts
@plain:
  jsr @left
  jsr @shift
@right:
  iny
  jsr @half
  dey
  rts
@left:
@half:
  tya
  sta OAM+1,x
  clc
  adc #2
  sta OAM+5,x
  lda sprite_bits
  sta OAM+2,x
  sta OAM+6,x
  lda sprite_x
  sta OAM+3,x
  sta OAM+7,x
  lda sprite_bits
  bmi @upside
  lda sprite_y
  sta OAM,x
  clc
  adc #8
  sta OAM+4,x
  jmp @advance
@upside:
  lda sprite_y
  sta OAM+4,x
  clc
  adc #8
  sta OAM,x
@advance:
  txa
  clc
  adc #8
  tax
  rts
@shift:
  lda sprite_x
  clc
  adc #8
  sta sprite_x
  rts

draw_moth:
  lda moth_page,y
  cmp #$FF
  beq @gone
  lda moth_low,y
  sec
  sbc scroll_low
  sta sprite_x
  lda moth_page,y
  sbc scroll_page
  bne @gone
  lda moth_y,y
  sta OAM,x
  lda frame
  lsr a
  lsr a
  lsr a
  and #1
  ora #$1C
  sta OAM+1,x
  lda #2
  sta OAM+2,x
  lda sprite_x
  sta OAM+3,x
  inx
  inx
  inx
  inx
@gone:
  rts

; ---- pages ---------------------------------------------------------------------------------------------------------

screen_off:
  lda #0
  sta $2000
  sta $2001
  rts

screen_on:
  lda #1
  sta drawn
: bit $2002
  bpl :-
  lda #$80
  sta $2000
  lda #$1E
  sta $2001
  rts

colours:
  lda $2002
  lda #$3F
  sta $2006
  ldx #0
  stx $2006
: lda palette,x
  sta $2007
  inx
  cpx #32
  bcc :-
  rts

palette:
  .byte $02, $30, $17, $28,  $02, $31, $10, $28,  $02, $30, $17, $28,  $02, $30, $17, $28
  .byte $02, $30, $26, $28,  $02, $30, $28, $28,  $02, $30, $36, $28,  $02, $30, $17, $28

; Both pages empty but for stars.
empty_pages:
  jsr screen_off
  jsr colours
  lda #$20
  sta $2006
  lda #$00
  sta $2006
  ldy #8
  ldx #0
@tile:
  lda stars,x
  sta $2007
  inx
  bne @tile
  dey
  bne @tile
  lda #$23                              ; and their colours, which lie among the tiles
  jsr plain_colours
  lda #$27
plain_colours:
  sta $2006
  lda #$C0
  sta $2006
  lda #0
  ldx #64
: sta $2007
  dex
  bne :-
  rts

show_title:
  jsr empty_pages
  lda #TITLE
  sta mode
  lda #0
  sta time
  sta time+1
  sta time+2
  sta flag
  sta scroll_low
  sta scroll_page
  jsr hide_sprites
  ldx #0
  jsr write
  ldx #words_start - words
  jsr write
  jmp screen_on

; The end of a game, good or bad.
show_words:
  jsr empty_pages
  jsr hide_sprites
  lda #0
  sta scroll_low
  sta scroll_page
  ldx #words_won - words
  lda mode
  cmp #WON
  beq :+
  ldx #words_over - words
: jsr write
  jmp screen_on

; Words at x: two bytes of address, letters, zero.
write:
  lda words,x
  sta $2006
  inx
  lda words,x
  sta $2006
  inx
@letter:
  lda words,x
  beq @done
  sta $2007
  inx
  bne @letter
@done:
  rts

words:       .byte $21, $2C, "LANTERN", 0
words_start: .byte $22, $0A, "PRESS START", 0
words_won:   .byte $21, $C6, "THE COAST IS LIT", 0
words_over:  .byte $21, $CB, "DARKNESS", 0

begin_night:
  jsr empty_pages
  jsr draw_land
  lda #24
  sta x_low
  lda #0
  sta x_page
  sta x_part
  sta y_part
  sta y_speed
  sta x_speed
  sta facing
  sta flag
  sta time_part
  sta time+1
  sta time+2
  sta scroll_low
  sta scroll_page
  lda #1
  sta grounded
  lda #2
  sta time
  lda #192
  sta y_pos
  lda #PLAY
  sta mode
  jsr place_moths
  jsr draw
  jmp screen_on

place_moths:
  lda night
  asl a
  tay
  ldx #0
@moth:
  lda moths_page,y
  sta moth_page,x
  lda moths_low,y
  sta moth_low,x
  lda moths_y,y
  sta moth_y,x
  lda #64
  sta moth_way,x
  iny
  inx
  cpx #2
  bcc @moth
  rts

; Columns of earth, each sixteen pixels wide, written downwards.
draw_land:
  lda #$84                              ; steps of 32 in the screen's memory: one row down
  and #$7F
  sta $2000
  lda #0
  sta column
@column:
  jsr one_column
  inc column
  lda column
  cmp #64
  bcc @column
  lda #0
  sta $2000
  jmp draw_house

; Column of eight pixels: from row 16 down.
one_column:
  lda column
  lsr a
  jsr column_height
  sta height
  lda column
  and #$20
  lsr a
  lsr a
  lsr a
  ora #$22                              ; row 16 begins at $2200, of the second page at $2600
  sta $2006
  lda column
  and #$1F
  sta $2006
  lda #14                               ; rows that are left
  sta row
@tile:
  lda height
  asl a
  cmp row
  bcc @sky
  beq @turf
  lda height
  beq @sky
  lda #$03
  bne @put
@turf:
  lda height
  beq @sky
  lda #$02
  bne @put
@sky:
  lda #$00
@put:
  sta $2007
  dec row
  bne @tile
  rts

; The lighthouse on the last ground of the second page: rows 24 and 25, columns 28 and 29.
draw_house:
  lda #$27
  sta $2006
  lda #$1D
  sta $2006
  lda #$08
  sta $2007
  lda #$09
  sta $2007
  lda #$27
  sta $2006
  lda #$3D
  sta $2006
  lda #$0A
  sta $2007
  lda #$0B
  sta $2007
  lda #$20                              ; and the moon
  sta $2006
  lda #$98
  sta $2006
  lda #$04
  sta $2007
  lda #$05
  sta $2007
  lda #$20
  sta $2006
  lda #$B8
  sta $2006
  lda #$06
  sta $2007
  lda #$07
  sta $2007
  rts

; ---- the coast -----------------------------------------------------------------------------------------------------

nights: .byte 0, 32, 64
land:                                   ; heights of the columns, night by night; 0 is a pit
  .byte 2,2,2,2,2,2,2,2,0,2,2,2,3,3,2,2,0,0,2,2,2,3,4,3,2,2,0,0,2,2,2,2
  .byte 2,2,2,2,2,0,0,3,3,4,4,0,0,4,3,2,2,0,0,2,3,4,5,0,0,3,2,2,2,2,2,2
  .byte 2,2,2,2,0,0,3,0,0,4,0,0,3,3,0,0,4,5,0,0,4,4,0,0,3,0,0,2,2,2,2,2

moths_page: .byte $00, $01,  $00, $01,  $00, $01
moths_low:  .byte 176, 64,   96, 96,    152, 32
moths_y:    .byte 160, 144,  136, 120,  136, 128

stars:
  .repeat 256, i
    .byte ((i * 73 + 11) .mod 61) = 7
  .endrepeat

.segment "VECTORS"
  .word nmi, reset, irq

.segment "CHARS"
  .incbin "lantern.chr"
